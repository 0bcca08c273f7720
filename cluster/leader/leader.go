package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/internal/text"
)

// Run follows raft's leadership, which changes reports, until leave is closed or ctx
// ends. When this node becomes raft's leader it runs candidate, and ends it when the
// leadership is lost. At most one candidate runs at a time.
func (l *Leader) Run(ctx context.Context, changes <-chan bool, leave <-chan struct{}) {
	var duty sync.WaitGroup
	defer duty.Wait()
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	duty.Go(func() { l.watchHandover(watching) })
	early := l.observeEarly(ctx)
	defer func() { early() }()
	var end func()
	stop := func() {
		if end != nil {
			end()
			end = nil
		}
	}
	defer stop()
	meeting, met := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.meet(meeting) })
	defer wg.Wait()
	defer met()
	for {
		select {
		case leader := <-changes:
			led := end != nil
			// The channel keeps only the latest event, so a leader term that is still set
			// belongs to an earlier term of raft. Clear it first: it must answer nothing
			// more, even if a hung bucket keeps its goroutines from ending.
			l.current.Store(nil)
			stop()
			if led {
				early = l.observeEarly(ctx)
			}
			if leader {
				end = l.startCampaign(ctx, early)
			}
		case <-leave:
			return
		case <-ctx.Done():
			return
		}
	}
}

// startCampaign calls first, and then candidate, in a goroutine. The returned function cancels it and
// waits for its end.
func (l *Leader) startCampaign(ctx context.Context, first func()) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		first()
		l.candidate(ctx)
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// candidate tries to acquire the document again and again while this node is raft's
// leader. When it has acquired the document it runs the leader term.
func (l *Leader) candidate(ctx context.Context) {
	defer l.setFence(FenceFollower, "")
	defer l.prepared.end()
	l.setFence(FenceStandby, "catching up with the log")
	var told text.Repeats
	for ctx.Err() == nil {
		l.noteCampaign(false, nil)
		r, wait, err := l.campaign(ctx)
		if ctx.Err() == nil {
			l.noteCampaign(true, err)
		}
		switch {
		case r != nil:
			l.prepared.drop()
			err = r.run(ctx)
			if ctx.Err() == nil {
				err = l.nameCopy(ctx, err)
				l.setFence(FenceFenced, err.Error())
				l.log.Error("this node is no longer the active leader", "reason", err)
			}
			wait = l.cfg.Flush.ConflictBackoff
		case err != nil && ctx.Err() == nil:
			if skipped, due := told.Due(err.Error()); due {
				l.log.Warn("cannot become the active leader yet; trying again", "reason", err, "in", wait, "skipped", skipped)
			}
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// Active returns the leader term that may answer writes and reads now, or nil. It asks
// raft, which learns first that the term is over; the goroutines of the leader term end
// later.
func (l *Leader) Active() *Term {
	r := l.current.Load()
	if r == nil || l.do.Term() != r.term || !l.do.Leads() {
		return nil
	}
	return r
}

// nameCopy adds a warning to the error of a fence that was lost to a broker with this
// cluster's own id: a second cluster, a copy, uses the same id. It does so only if raft
// confirms the leadership, because no other node of this cluster can have taken over
// then.
func (l *Leader) nameCopy(ctx context.Context, why error) error {
	var f *election.FencedError
	if !errors.As(why, &f) || f.Node == "" || f.Cluster != l.do.ClusterID() {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	if l.do.Verify(ctx) != nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("%w: %s", why, election.CopyWarning(f.Node, f.Address))
}

func (l *Leader) setFence(state, reason string) {
	l.state.Store(&fenceState{state: state, reason: reason})
}

// caughtUp waits until this node has applied every entry that was committed before the
// current term. It returns the term.
func (l *Leader) caughtUp(ctx context.Context) (term uint64, err error) {
	term = l.do.Term()
	if err := l.do.Barrier(ctx); err != nil {
		return 0, fmt.Errorf("wait for the log to be applied: %w", err)
	}
	if l.do.Term() != term || !l.do.Leads() {
		return 0, errors.New("leadership changed while the log was applied")
	}
	return term, nil
}

// Leader acquires the document while this node is raft's leader, and then runs a leader
// term. It lives as long as the node.
type Leader struct {
	*base
	current   atomic.Pointer[Term]       // set while this node answers writes
	state     atomic.Pointer[fenceState] // state of the fence, for Status
	carried   atomic.Pointer[Carried]    // nil: nothing
	watch     election.Watch             // of the document; used by the candidate's goroutine
	announced time.Time                  // when this cluster announced itself last; used by the candidate's goroutine
	prepared  prepared                   // used by the candidate's goroutine
	campaigns atomic.Pointer[campaignState]
	finding   atomic.Pointer[string] // of the last round of watchHandover; nil: none
	checks    singleflight.Group     // tries of the bucket
}

// fenceState is one of the Fence constants with its reason.
type fenceState struct{ state, reason string }

// New returns the leader of a node. It does nothing until Run.
func New(cfg Config, do Effects) *Leader {
	n := &Leader{base: &base{cfg: cfg, do: do, log: cfg.Logger}}
	n.setFence(FenceFollower, "")
	return n
}

// Fence returns the state of the fence, one of the Fence constants, and its reason.
func (l *Leader) Fence() (state, reason string) {
	if !l.do.Leads() { // a campaign that hangs in the bucket may not have noticed
		return FenceFollower, ""
	}
	f := l.state.Load()
	return f.state, f.reason
}

// DocumentCopies returns the copies of documents that were stored since this process started.
func (l *Leader) DocumentCopies() DocumentCopies {
	if c := l.copies.Load(); c != nil {
		return *c
	}
	return DocumentCopies{}
}

// Carried returns what was carried over since this process started.
func (l *Leader) Carried() Carried {
	if c := l.carried.Load(); c != nil {
		return *c
	}
	return Carried{}
}

// Behind reports whether the clock of the leader term waits for a majority of the clocks
// to agree.
func (l *Leader) Behind() bool {
	r := l.current.Load()
	return r != nil && r.behind.Load()
}

// Applied signals the leader term that m has applied an entry, or has a new state as a whole. idle
// marks an entry that needs no flush of its own. The node calls it for each entry, under
// the replica's lock. Applied does not block and calls none of the effects.
func (l *Leader) Applied(m *fsm.Machine, idle bool) {
	if r := l.current.Load(); r != nil {
		r.changed(m, idle)
	}
}
