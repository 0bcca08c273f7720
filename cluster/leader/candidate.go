package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"osqueue/election"
	"osqueue/internal/limit"
	"osqueue/internal/sleep"
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
	var logged limit.Repeats
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
			if skipped, due := logged.Due(err.Error()); due {
				l.log.Warn("cannot become the active leader yet; trying again", "reason", err, "in", wait, "skipped", skipped)
			}
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
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
