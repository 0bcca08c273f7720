package leader

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
	"osqueue/internal/sleep"
	"osqueue/storage/queuefile"
)

// Term is a node's time as active leader. It begins when the node has acquired the
// document and ends when it loses leadership or the document. Its exported methods are
// safe for concurrent use.
type Term struct {
	*base
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

// beginTerm begins a leader term: it registers the broker through the log, which extends
// all leases, and opens the write path. run has to be called next.
func (n *Leader) beginTerm(
	ctx context.Context, term uint64, fence *election.Fence, first *queuefile.Content, clock *leaderClock,
) (*Term, error) {
	r := &Term{
		base:    n.base,
		term:    term,
		clock:   clock,
		fence:   fence,
		log:     n.log.Named("leaderTerm"),
		over:    make(chan struct{}),
		earlier: make(chan struct{}, 1),
	}
	r.began = func() {
		n.current.Store(r)
		n.setFence(FenceActive, "")
	}
	r.ended = func() { n.current.CompareAndSwap(r, nil) }
	if err := r.register(ctx, n.firstLevel(ctx)...); err != nil {
		return nil, err
	}
	r.proposals = r.newProposer()
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
func (r *Term) register(ctx context.Context, more ...*fsmpb.Mutation) error {
	return r.registerAt(ctx, r.clock.now(), more...)
}

// registerAt is register with the time of the entry, in ms.
func (r *Term) registerAt(ctx context.Context, nowMs int64, more ...*fsmpb.Mutation) error {
	op := &fsmpb.RegisterBroker{
		Node:     r.cfg.Name,
		Address:  r.cfg.HTTPAdvertise,
		Epoch:    r.fence.Epoch(),
		Cluster:  r.do.ClusterID(),
		Lineage:  r.fence.Lineage(),
		Settings: r.cfg.Settings.ToPB(),
	}
	first := &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: op}}
	results, err := r.Apply(ctx, nowMs, append([]*fsmpb.Mutation{first}, more...)...)
	if err == nil {
		err = results[0].Code.Err()
	}
	if err != nil {
		return fmt.Errorf("register as broker: %w", err)
	}
	return nil
}

// errSetClock ends a leader term so that the time can be set back.
var errSetClock = errors.New("the queue's time is set back")

// run answers writes until the leader term ends. It returns nil when ctx ended it,
// errSetClock when it ended for setting the time back, and else why the document was lost.
func (r *Term) run(ctx context.Context) error {
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
func (r *Term) finish() {
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
func (r *Term) changed(m *fsm.Machine, idle bool) {
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
func (r *Term) passTime(ctx context.Context) {
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	crons := &fires{term: r}
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
func (r *Term) pass(ctx context.Context, crons *fires) error {
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
func (r *Term) nextDeadline() (due <-chan time.Time, stop func()) {
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
