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
)

// Term is a node's time as active leader. It begins when the node has acquired the
// document and ends when it loses leadership or the document. Its exported methods are
// safe for concurrent use.
type Term struct {
	*base
	term  uint64
	clock *leaderClock
	// behind is set while the clock waits for a majority of the clocks to agree.
	behind atomic.Bool
	fence  *election.Fence
	log    hclog.Logger
	over   chan struct{} // closed when the leader term has ended
	// began is called once, by run's goroutine, when the leader term answers writes; ended
	// when it answers none any more, before its goroutines end. run holds no lock.
	began, ended func()
	first        *fsm.Settings // those before the first entry; the same or older than what it has

	proposals *groupcommit.Batcher[request, committed]
	flusher   *flush.Flusher
	builder   *flush.DocumentBuilder
	written   atomic.Pointer[written]
	gate      gate
	standbys  *standbys
	lost      atomic.Bool                  // another broker has the document
	damage    atomic.Pointer[ArchiveError] // last finding of the audit; nil: none
	doubted   chan struct{}                // signals audit that the archive may be gone
	unread    float64                      // objects that the audit still has to read; used by its goroutine only
	unhealed  bool                         // an earlier term announced damage, and not its end; used by the audit's goroutine only

	strange  sync.Map      // specs and zones of schedules that this version cannot read, [2]string
	deadline atomic.Int64  // deadline of the timer in passTime, ms
	earlier  chan struct{} // signals passTime that the deadline moved nearer
}

// register makes this node the broker, through the log. All leases and worker timeouts
// start again from that entry. The mutations in more are part of the same entry.
func (t *Term) register(ctx context.Context, more ...*fsmpb.Mutation) error {
	return t.registerAt(ctx, t.clock.now(), more...)
}

// registerAt is register with the time of the entry, in ms.
func (t *Term) registerAt(ctx context.Context, nowMs int64, more ...*fsmpb.Mutation) error {
	op := &fsmpb.RegisterBroker{
		Node:     t.cfg.Name,
		Address:  t.cfg.HTTPAdvertise,
		Epoch:    t.fence.Epoch(),
		Cluster:  t.do.ClusterID(),
		Lineage:  t.fence.Lineage(),
		Settings: t.settings.Load(),
	}
	first := &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: op}}
	results, err := t.Apply(ctx, nowMs, append([]*fsmpb.Mutation{first}, more...)...)
	if err == nil {
		err = results[0].Code.Err()
	}
	if err != nil {
		return fmt.Errorf("register as broker: %w", err)
	}
	return nil
}

// tell proposes an event about the state of the bucket. If it fails, only the event is
// lost.
func (t *Term) tell(ctx context.Context, kind fsm.AnnounceKind, text string) {
	if _, err := t.proposals.Do(ctx, own(proposal{announce(kind, text)})); err != nil {
		t.log.Debug("an event was lost", "kind", kind, "error", err)
	}
}

// lag returns the age of the oldest write that the bucket does not have.
func (t *Term) lag() time.Duration {
	at := t.do.Unflushed.OldestMs()
	if at == 0 {
		return 0
	}
	return time.Duration(max(t.clock.now()-at, 0)) * time.Millisecond
}

// Over returns a channel that is closed when the term has ended.
func (t *Term) Over() <-chan struct{} { return t.over }

// Now returns the leader's clock, in ms.
func (t *Term) Now() int64 { return t.clock.now() }

// Refusal returns why the term takes no writes except reports now: an ErrFlushLag, or nil.
func (t *Term) Refusal() error { return t.gate.refusal() }

// Failing returns why the last flush failed, or "".
func (t *Term) Failing() string { return t.flusher.Failing() }

// Flushed returns the LSN of the newest state in the bucket.
func (t *Term) Flushed() fsm.LSN { return t.flusher.Flushed() }

// rival returns why this leader may have lost the document, so that only heartbeats may be
// acknowledged now; nil if it certainly has it. The silence counts from the start of the last
// successful write: other clusters have seen that version later, and wait for as long
// (election.Silence.Of).
func (t *Term) rival() *RivalError {
	began, named := t.flusher.Renewed()
	silent, allowed := time.Since(began), t.cfg.MaxFlushLag
	if named {
		allowed = t.cfg.BrokerTimeout
	}
	if !t.lost.Load() && (allowed == 0 || silent <= allowed-min(rivalMargin, (t.cfg.BrokerTimeout-t.cfg.Flush.Heartbeat)/2)) {
		return nil
	}
	return &RivalError{Silent: silent, Named: named, Standby: t.standbys.text(), Cause: t.flusher.Failing()}
}

// refuses returns why a proposal is refused now, or nil.
func (t *Term) refuses(p proposal) error {
	if e := t.rival(); e != nil && !p.isHeartbeat() {
		return e
	}
	if e := t.gate.refusal(); e != nil && !p.isReport() {
		return e
	}
	return nil
}

// rivalMargin is the time between the leader's refusal of writes and the earliest takeover by
// another cluster. Both sides measure durations by their monotonic clocks, which differ a little.
const rivalMargin = 250 * time.Millisecond

// committed is one caller's share of the results of an applied entry, or why there is none.
type committed struct {
	results []fsm.Result
	lsn     fsm.LSN
	err     error
}

// MayRead returns nil if no other broker can have answered a write by now.
func (t *Term) MayRead() error {
	if e := t.rival(); e != nil {
		return e
	}
	return nil
}

// Propose commits mutations in one entry. It returns one result for each.
func (t *Term) Propose(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	return t.ProposeWithin(ctx, ms, 0)
}

// ProposeWithin is Propose with a limit on the wait; 0 is no limit.
func (t *Term) ProposeWithin(ctx context.Context, ms []*fsmpb.Mutation, limit time.Duration) ([]fsm.Result, fsm.LSN, error) {
	if err := t.refuses(ms); err != nil {
		return nil, fsm.LSN{}, err
	}
	if err := t.CheckLevel(ms); err != nil {
		return nil, fsm.LSN{}, err
	}
	c, err := t.proposals.DoWithin(ctx, request{ms: ms}, limit)
	if err == nil {
		err = c.err
	}
	if err != nil {
		return nil, fsm.LSN{}, proposalError(err)
	}
	return c.results, c.lsn, nil
}

// damaged returns the known damage of the archive, or nil if there is none.
func (t *Term) damaged() error {
	if e := t.damage.Load(); e != nil {
		return e
	}
	return nil
}

// unreadable reports whether fire has found that this version cannot read the schedule.
func (t *Term) unreadable(c *fsm.Cron) bool {
	_, found := t.strange.Load([2]string{c.Spec, c.TimeZone})
	return found
}

// proposalError translates an error of the batcher to one of this package.
func proposalError(err error) error {
	switch {
	case errors.Is(err, groupcommit.ErrOverloaded):
		return ErrOverloaded
	case errors.Is(err, groupcommit.ErrClosed):
		return ErrNotLeader
	case errors.Is(err, groupcommit.ErrUnknown):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	default:
		return err
	}
}

// Status describes a term, and what it knows of the bucket.
type Status struct {
	LagMs           int64   // age of the oldest entry that is not flushed
	FlushIntervalMs int64   // present least time between two flushes
	FlushError      string  // error of the last flush; "" if it succeeded
	ArchiveError    string  // missing or damaged object of the archive; "" if none is known
	Standby         string  // the standby cluster that the active leader knows of; "" for none
	Refusing        string  // reason why writes are refused; "" if they are not
	DocumentBytes   int     // 0: not written yet
	DocumentView    bool    // whether the document shows the available and running jobs
	CheckpointLSN   fsm.LSN // LSN of the newest checkpoint
	ArchiveLSN      fsm.LSN // the log in the bucket contains the entries up to here
	LogBytes        int64   // size of the log behind the checkpoint
}

// slowFlush is the time after which the status mentions a write that has not ended.
const slowFlush = 2 * time.Second

// flushError returns why the state does not reach the bucket; "" if it does.
func (t *Term) flushError() string {
	since, reason := t.flusher.Stalled()
	if reason == "" && !since.IsZero() && time.Since(since) > slowFlush {
		return fmt.Sprintf("a write of the bucket has not ended for %v", time.Since(since).Round(time.Second))
	}
	return reason
}

// Status returns the state of the term.
func (t *Term) Status() Status {
	s := Status{
		LagMs: t.lag().Milliseconds(), FlushIntervalMs: t.flushInterval(t.cfg.Flush.Interval).Milliseconds(),
		FlushError: t.flushError(), Standby: t.standbys.text(),
	}
	if e := t.damage.Load(); e != nil {
		s.ArchiveError = e.Error()
	}
	if refused := t.gate.refusal(); refused != nil {
		s.Refusing = refused.Error()
	}
	if d := t.written.Load(); d != nil {
		s.DocumentBytes, s.DocumentView = d.bytes, d.viewed
		s.CheckpointLSN, s.ArchiveLSN = d.root.Checkpoint.LSN, d.root.LSN()
		for i := range d.root.Log {
			s.LogBytes += d.root.Log[i].Stored
		}
	}
	return s
}

// Due reports whether the machine's next deadline is due at now, in ms. The caller holds
// the lock that guards m.
func (t *Term) Due(m *fsm.Machine, now int64) bool {
	at, ok := m.NextDeadline(t.unreadable)
	return ok && at <= now
}

// WaitFlushed returns nil once lsn is in the bucket, and ErrNotLeader when the term ends.
// While the leader knows that the state cannot be restored from the document, the error is
// an ErrArchive, also for the zero LSN.
func (t *Term) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	if err := t.damaged(); err != nil {
		return err
	}
	err := t.flusher.WaitFlushed(ctx, lsn)
	if err == nil {
		err = t.damaged()
	}
	if errors.Is(err, flush.ErrOver) {
		return ErrNotLeader
	}
	return err
}
