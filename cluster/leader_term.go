package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cluster/flush"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/groupcommit"
	"osqueue/internal/repeats"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// leaderTerm is a node's time as active leader. It begins when the node has
// acquired the document and ends when it loses leadership or the document.
type leaderTerm struct {
	*leaderBase
	term  uint64
	clock *leaderClock
	stop  func() // ends run, so that the time can be set back
	// behind is set while the clock waits for a majority of the clocks to agree.
	behind atomic.Bool
	fence  *election.Fence
	log    hclog.Logger
	over   chan struct{} // closed when the leader term has ended
	// began is called once, by run's goroutine, when the leader term answers writes; ended
	// when it answers none any more, before its goroutines end. run holds no lock.
	began, ended func()

	proposals *groupcommit.Batcher[proposal, committed]
	flusher   *flush.Flusher
	builder   *flush.DocumentBuilder
	written   atomic.Pointer[written]
	gate      gate
	standby   atomic.Pointer[Standby]      // newest standby that is known to be alive; nil: none
	alone     atomic.Bool                  // the last read of the announcement has shown that no standby is alive
	damage    atomic.Pointer[ArchiveError] // last finding of the audit; nil: none
	unread    float64                      // objects that the audit still has to read; used by its goroutine only

	strange  sync.Map      // specs and zones of schedules that this version cannot read, [2]string
	deadline atomic.Int64  // deadline of the timer in passTime, ms
	earlier  chan struct{} // signals passTime that the deadline moved nearer
}

// lead follows raft's leadership, which changes reports, until leave is closed or ctx
// ends. When this node becomes raft's leader it runs candidate, and ends it when the
// leadership is lost. At most one candidate runs at a time.
func (n *leader) lead(ctx context.Context, changes <-chan bool, leave <-chan struct{}) {
	var end func()
	stop := func() {
		if end != nil {
			end()
			end = nil
		}
	}
	defer stop()
	for {
		select {
		case leader := <-changes:
			// The channel keeps only the latest event, so a leader term that is still set
			// belongs to an earlier term of raft. Clear it first: it must answer nothing
			// more, even if a hung bucket keeps its goroutines from ending.
			n.current.Store(nil)
			stop()
			if leader {
				end = n.startCampaign(ctx)
			}
		case <-leave:
			return
		case <-ctx.Done():
			return
		}
	}
}

// startCampaign runs candidate in a goroutine. The returned function cancels it and
// waits for its end.
func (n *leader) startCampaign(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { n.candidate(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// candidate tries to acquire the document again and again while this node is raft's
// leader. When it has acquired the document it runs the leader term.
func (n *leader) candidate(ctx context.Context) {
	defer n.setFence(FenceFollower, "")
	n.setFence(FenceStandby, "catching up with the log")
	var adopted storage.Version
	var told repeats.Filter
	for ctx.Err() == nil {
		r, wait, err := n.campaign(ctx, &adopted)
		switch {
		case r != nil:
			err = r.run(ctx)
			if errors.Is(err, errSetClock) {
				continue
			}
			if ctx.Err() == nil {
				err = n.nameCopy(ctx, err)
				n.setFence(FenceFenced, err.Error())
				n.log.Error("this node is no longer the active leader", "reason", err)
			}
			wait = n.cfg.Flush.ConflictBackoff
		case err != nil && ctx.Err() == nil:
			if skipped, due := told.Due(err.Error()); due {
				n.log.Warn("cannot become the active leader yet; trying again", "reason", err, "in", wait, "skipped", skipped)
			}
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// active returns the leader term that may answer writes and reads now, or nil. It asks
// raft, which learns first that the term is over; the goroutines of the leader term end
// later.
func (n *leader) active() *leaderTerm {
	r := n.current.Load()
	if r == nil || n.do.Term() != r.term || !n.do.Leads() {
		return nil
	}
	return r
}

// nameCopy adds a warning to the error of a fence that was lost to a broker with this
// cluster's own id: a second cluster, a copy, uses the same id. It does so only if raft
// confirms the leadership, because no other node of this cluster can have taken over
// then.
func (n *leader) nameCopy(ctx context.Context, why error) error {
	var f *election.FencedError
	if !errors.As(why, &f) || f.Node == "" || f.Cluster != n.do.ClusterID() {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	if n.do.Verify(ctx) != nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("%w: %s", why, election.CopyWarning(f.Node, f.Address))
}

func (n *leader) setFence(state, reason string) {
	n.state.Store(&fenceState{state: state, reason: reason})
}

// caughtUp waits until this node has applied every entry that was committed before the
// current term. It returns the term.
func (n *leader) caughtUp(ctx context.Context) (term uint64, err error) {
	term = n.do.Term()
	if err := n.do.Barrier(ctx); err != nil {
		return 0, fmt.Errorf("wait for the log to be applied: %w", err)
	}
	if n.do.Term() != term || !n.do.Leads() {
		return 0, errors.New("leadership changed while the log was applied")
	}
	return term, nil
}

// beginTerm begins a leader term: it registers the broker through the log, which extends
// all leases, and opens the write path. run has to be called next.
func (n *leader) beginTerm(
	ctx context.Context, term uint64, fence *election.Fence, first *queuefile.Content, clock *leaderClock,
) (*leaderTerm, error) {
	r := &leaderTerm{
		leaderBase: n.leaderBase,
		term:       term,
		clock:      clock,
		fence:      fence,
		log:        n.log.Named("leaderTerm"),
		over:       make(chan struct{}),
		earlier:    make(chan struct{}, 1),
	}
	r.began = func() {
		n.current.Store(r)
		n.setFence(FenceActive, "")
	}
	r.ended = func() { n.current.CompareAndSwap(r, nil) }
	if err := r.register(ctx, n.firstLevel(ctx)...); err != nil {
		return nil, err
	}
	r.proposals = n.newProposer(r.clock)
	r.builder = flush.NewDocumentBuilder(n.cfg.Flush, n.cfg.Bucket, fence.Lineage(), first, n.cfg.Unflushed, n.do.Freeze, r.log)
	r.flusher = flush.New(n.cfg.Flush, fence, r.builder, flush.Effects{
		LSN:      func() fsm.LSN { return n.meta().LSN },
		NowMs:    r.heartbeatMs,
		Interval: n.flushInterval,
		Idle:     r.idle,
		Adopt:    r.adoptEdit,
		Wrote:    r.wrote,
	}, r.log)
	return r, nil
}

// register makes this node the broker, through the log. All leases and worker timeouts
// start again from that entry. The mutations in more are part of the same entry.
func (r *leaderTerm) register(ctx context.Context, more ...*fsmpb.Mutation) error {
	return r.registerAt(ctx, r.clock.now(), more...)
}

// registerAt is register with the time of the entry, in ms.
func (r *leaderTerm) registerAt(ctx context.Context, nowMs int64, more ...*fsmpb.Mutation) error {
	op := &fsmpb.RegisterBroker{
		Node:     r.cfg.Name,
		Address:  r.cfg.HTTPAdvertise,
		Epoch:    r.fence.Epoch(),
		Cluster:  r.do.ClusterID(),
		Lineage:  r.fence.Lineage(),
		Settings: r.cfg.Settings.ToPB(),
	}
	first := &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: op}}
	results, err := r.applyNow(ctx, nowMs, append([]*fsmpb.Mutation{first}, more...)...)
	if err == nil {
		err = results[0].Code.Err()
	}
	if err != nil {
		return fmt.Errorf("register as broker: %w", err)
	}
	return nil
}

// run answers writes until the leader term ends. It returns nil when ctx ended it,
// errSetClock when it ended for setting the time back, and else why the document was lost.
func (r *leaderTerm) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	r.stop = func() { end(errSetClock) }
	cancel := func() { end(nil) }
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { r.passTime(ctx) })
	wg.Go(func() { r.collect(ctx) })
	wg.Go(func() { r.keepLevel(ctx) })
	wg.Go(func() { r.audit(ctx) })
	wg.Go(func() { r.checkStates(ctx) })
	wg.Go(func() { r.watchStandby(ctx) })
	if r.do.Inbox != nil {
		wg.Go(func() { r.do.Inbox(ctx) })
	}
	r.began()
	r.flusher.Changed()
	r.log.Info("this node is the active leader", "term", r.term, "epoch", r.fence.Epoch())

	err := r.flusher.Run(ctx)

	r.ended()
	cancel()
	close(r.over)
	wg.Wait()
	defer r.builder.Close()
	defer r.flusher.Close()
	if err != nil {
		r.proposals.Close()
		return err
	}
	r.finish()
	if errors.Is(context.Cause(ctx), errSetClock) {
		return errSetClock
	}
	return nil
}

// finish ends the leader term in order: it commits the accepted proposals and flushes the
// state, as far as raft and the bucket answer within finalFlushTimeout.
func (r *leaderTerm) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), finalFlushTimeout)
	defer cancel()
	if !r.do.Leads() {
		r.proposals.Close()
		return
	}
	if err := r.proposals.Drain(ctx); err != nil {
		r.log.Warn("some writes were still under way at the end", "error", err)
	}
	if err := r.flusher.Final(ctx); err != nil {
		r.log.Warn("the last state did not reach the bucket; it is in the log", "error", err)
	}
}

// finalFlushTimeout bounds how long a graceful stop waits for the bucket before it hands
// leadership over. An outage of the bucket must not keep the others from leading.
const finalFlushTimeout = time.Second

// changed is called for every applied entry, under the replica's lock. It signals the
// flusher, and passTime if the next deadline moved nearer. idle marks an entry that needs
// no flush of its own.
func (r *leaderTerm) changed(m *fsm.Machine, idle bool) {
	if !idle { // the next heartbeat of the document has it
		r.flusher.Changed()
	}
	if at, ok := m.NextDeadline(r.unreadable); ok && at < r.deadline.Load() {
		select {
		case r.earlier <- struct{}{}:
		default:
		}
	}
}

// rescanInterval is the time between two rescans for available jobs whose wake-up got
// lost.
const rescanInterval = 250 * time.Millisecond

// retryInterval is the pause after an entry that lets time pass could not be proposed.
const retryInterval = time.Second

// passTime lets time pass on an idle cluster: it proposes an entry when the machine's
// next deadline is due. It also rescans for lost wake-ups, and watches the bucket and the
// clocks, several times a second. It runs until ctx ends.
func (r *leaderTerm) passTime(ctx context.Context) {
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	crons := &fires{leaderTerm: r}
	for {
		due, stop := r.nextDeadline()
		if r.gate.refusal() != nil {
			due = nil // no worker can report now, so no lease may expire
		}
		select {
		case <-ctx.Done():
			stop()
			return
		case <-due:
			if err := r.pass(ctx, crons); err != nil && ctx.Err() == nil {
				r.log.Debug("time could not pass yet", "error", err)
				sleep.For(ctx, retryInterval)
			}
		case <-r.earlier:
		case <-rescan.C:
			r.do.Rescan()
			r.watchBucket(ctx)
			r.moveTimeOn(ctx)
		}
		stop()
	}
}

// pass proposes the schedules that are due, or an empty entry. The entry carries the
// time, at which the machine does the rest. Schedules that do not fit into the entry are
// still due after it.
func (r *leaderTerm) pass(ctx context.Context, crons *fires) error {
	now := r.clock.now()
	if now < r.deadline.Load() {
		return nil // the clock is slewed: the timer was early
	}
	due, err := crons.due(now)
	if err != nil {
		return err
	}
	_, err = r.proposals.Do(ctx, due)
	return err
}

// waitMax bounds one wait for a deadline, which may be at the end of time.
const waitMax = time.Hour

// nextDeadline returns a channel that fires at the machine's next deadline or earlier, or
// nil if there is no deadline. stop releases the timer. nextDeadline stores the deadline
// for changed, which signals a nearer one.
func (r *leaderTerm) nextDeadline() (due <-chan time.Time, stop func()) {
	r.deadline.Store(noDeadline)
	var at int64
	var ok bool
	r.do.Read(func(m *fsm.Machine) { at, ok = m.NextDeadline(r.unreadable) })
	if !ok {
		return nil, func() {}
	}
	r.deadline.Store(at)
	wait := min(at-r.clock.now(), waitMax.Milliseconds())
	t := time.NewTimer(time.Duration(wait) * time.Millisecond)
	return t.C, func() { t.Stop() }
}

const noDeadline = int64(^uint64(0) >> 1)
