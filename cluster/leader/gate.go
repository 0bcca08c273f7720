package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/storage/document"
)

// gate refuses writes while the bucket is too far behind. An outage of the bucket does
// not stop the quorum, but the acknowledged writes that the bucket lacks must not grow
// without limit. The gate closes when the oldest of them is older than MaxFlushLag, and
// opens when the lag is at most half of that. Reports of workers still pass: they add no
// work, and a worker that cannot renew its lease would have to abort its job.
//
// The gate also closes while a standby cluster may have taken the document over; then
// only heartbeats pass (standby.go). While the gate is closed, only the entries of
// reports let time pass. When it opens, all leases are extended, as after a takeover.
//
// The goroutine of passTime opens and closes the gate; any goroutine may read refused.
type gate struct {
	refused atomic.Pointer[error] // an ErrFlushLag; nil: the gate is open

	// The next fields belong to the goroutine of passTime.
	awaySince time.Time // when the flusher began to fail; zero: it does not fail
	announced bool      // the event that the bucket is unavailable was proposed, by this term or an earlier one
	// unresolved is set if an earlier term announced that writes are refused, and none that
	// they are accepted.
	unresolved bool
}

// refusal returns why writes are refused now, or nil.
func (g *gate) refusal() error {
	if e := g.refused.Load(); e != nil {
		return *e
	}
	return nil
}

// Standby is the announcement of a cluster that waits to take the document over.
type Standby struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Address string `json:"address"` // of the node's HTTP API
	At      int64  `json:"at"`      // wall clock of that node; informative only
}

// String returns the node and the address of the standby, for logs and errors.
func (s *Standby) String() string {
	if s.Node == "" {
		return "cluster " + s.Cluster
	}
	return fmt.Sprintf("node %s at %s", s.Node, s.Address)
}

// written describes the last version of the document that this leader has written.
type written struct {
	bytes  int
	viewed bool              // it shows the jobs
	root   *document.Archive // objects that the document names
}

// names reports whether a version of the document names an object.
func (w *written) names(key string) bool {
	return w != nil && (w.root.Checkpoint.Key == key ||
		slices.ContainsFunc(w.root.Log, func(ref document.Ref) bool { return ref.Key == key }))
}

// watchBucket opens and closes the gate, and announces the state of the bucket as events.
func (t *Term) watchBucket(ctx context.Context) {
	t.watchGate(ctx)
	t.watchTrouble(ctx)
}

func (t *Term) watchGate(ctx context.Context) {
	lag, most := t.lag(), t.cfg.MaxFlushLag
	closed, rival := t.gate.refused.Load() != nil, t.rival()
	switch {
	case rival != nil:
		t.refuse(ctx, rival)
	case closed && (most == 0 || lag <= most/2):
		if err := t.register(ctx, announce(fsm.AnnounceWritesAccepted, "")); err != nil {
			t.log.Warn("cannot accept writes again yet", "error", err)
			return
		}
		t.gate.refused.Store(nil)
		t.log.Info("the bucket has caught up; writes are accepted again")
	case most > 0 && lag > most:
		t.refuse(ctx, &FlushLagError{Lag: lag, Max: most, Cause: t.flusher.Failing()})
	case t.gate.unresolved:
		t.gate.unresolved = false
		t.tell(ctx, fsm.AnnounceWritesAccepted, "")
	}
}

// refuse closes the gate, or replaces the reason if it is closed already.
func (t *Term) refuse(ctx context.Context, why error) {
	if t.gate.refused.Swap(&why) == nil {
		t.log.Error("writes are refused", "reason", why)
		if !t.gate.unresolved {
			t.tell(ctx, fsm.AnnounceWritesRefused, why.Error())
		}
		t.gate.unresolved = false // the end is announced when the gate opens
	}
}

// watchTrouble announces an outage of the bucket that has lasted longer than a heartbeat.
// While the gate is closed it announces nothing, because an announcement is an entry that
// lets time pass; the reason for which the gate closed was announced before.
func (t *Term) watchTrouble(ctx context.Context) {
	g, reason := &t.gate, t.flusher.Failing()
	switch {
	case reason == "":
		if g.announced && g.refusal() == nil {
			t.tell(ctx, fsm.AnnounceBucketBack, "")
			g.announced = false
		}
		g.awaySince = time.Time{}
	case g.awaySince.IsZero():
		g.awaySince = time.Now()
	case !g.announced && g.refusal() == nil && time.Since(g.awaySince) > t.cfg.Flush.Heartbeat:
		g.announced = true
		t.tell(ctx, fsm.AnnounceBucketAway, reason)
	}
}

// wrote records the content of the document after a flush, and trims the unflushed log.
// The flusher calls it.
func (t *Term) wrote(w flush.Written) {
	t.do.Unflushed.Flushed(w.Content.LSN())
	t.noteVersion(t.fence.Lineage(), t.fence.Epoch(), w.Content.LSN())
	t.do.Unflushed.Trim(w.Kept)
	t.kept.Store(&w.Kept)
	t.written.Store(&written{bytes: w.Bytes, viewed: w.Viewed, root: w.Content.Archive})
}

// Errors of a term. If a call returns one of these, nothing was committed, except for
// ErrUnknown.
var (
	// ErrNotLeader means that this node is not the active leader.
	ErrNotLeader = errors.New("this node is not the active leader")
	// ErrOverloaded means that the buffer of proposals is full. Retry after a moment.
	ErrOverloaded = errors.New("too many writes are waiting; retry after a moment")
	// ErrTooLarge means that a mutation does not fit into one log entry.
	ErrTooLarge = errors.New("the write is too large for one log entry; split it")
	// ErrLevel means that the mutation needs a higher feature level than the cluster has.
	// The leader raises the level when all nodes run a release that knows it.
	ErrLevel = errors.New("this write is not possible until all nodes are upgraded")
	// ErrUnknown means that leadership was lost, or time ran out, after the mutation was
	// handed to raft. It may be committed, now or later. Retry with the same ids: the
	// machine recognises a mutation that it has already applied.
	ErrUnknown = errors.New("the outcome of the write is not known; it may have been committed")
)

// ErrFlushLag means that the bucket has been behind for too long: the node takes no
// writes until the bucket has caught up. The error is a *FlushLagError with the figures,
// or a *RivalError.
var ErrFlushLag = errors.New("the bucket is too far behind; writes are refused until it catches up")

// FlushLagError is an ErrFlushLag with its figures.
type FlushLagError struct {
	Lag   time.Duration // age of the oldest write that the bucket does not have
	Max   time.Duration // --max-flush-lag
	Cause string        // why the last write to the bucket failed; "" if it is only slow
}

// Error returns the lag, its limit and the cause.
func (e *FlushLagError) Error() string {
	s := fmt.Sprintf("the bucket is %v behind, at most %v are allowed (--max-flush-lag); writes are refused until it catches up",
		e.Lag.Round(time.Second), e.Max)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}

// Unwrap makes it an ErrFlushLag.
func (*FlushLagError) Unwrap() error { return ErrFlushLag }

// ErrArchive means that an object that the document in the bucket needs is missing or
// damaged. The error is an *ArchiveError.
var ErrArchive = errors.New("the archive in the bucket is damaged; a new checkpoint is being written")

// ArchiveError is an ErrArchive with the object.
type ArchiveError struct {
	Key   string // key of the object
	Cause error
	named string // key in the document that leads to the object
	// at is the LSN of the archive that needs the object, if the document does not name it yet.
	at fsm.LSN
}

// Error returns the object and what is wrong with it.
func (e *ArchiveError) Error() string { return fmt.Sprintf("%v: %v", ErrArchive, e.Cause) }

// Unwrap makes it an ErrArchive.
func (*ArchiveError) Unwrap() error { return ErrArchive }

// RivalError is an ErrFlushLag: the leader could not renew its heartbeat for so long that
// another cluster may have taken the document over.
type RivalError struct {
	Silent  time.Duration // time since the start of the last successful write of the document
	Named   bool          // the document may name a standby, which takes over after the broker timeout
	Standby string        // the standbys that are known; "" if there is none
	Cause   string        // why the last write failed; "" if it has not ended
}

// Error returns the duration, the standby and the cause.
func (e *RivalError) Error() string {
	standby, flag := "another cluster", "--max-flush-lag"
	if e.Named {
		standby, flag = "the standby cluster", "--broker-timeout, --rival-policy"
		if e.Standby != "" {
			standby += " (" + e.Standby + ")"
		}
	}
	s := fmt.Sprintf("the heartbeat in the bucket has not been renewed for %v, and %s may have taken the queue over: "+
		"writes are refused until the bucket accepts a write (%s)", e.Silent.Round(100*time.Millisecond), standby, flag)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}

// Unwrap makes it an ErrFlushLag.
func (*RivalError) Unwrap() error { return ErrFlushLag }
