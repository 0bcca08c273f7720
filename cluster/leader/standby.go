package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// standbyKey is the object that a cluster writes every Config.StandbyInterval while it
// waits for the document of another cluster. The active leader reads it as often. So a
// leader that is cut off from the bucket knows whether another cluster may have taken the
// document over by now. That cluster would lack every write that the leader acknowledges
// from then on. With RivalRefuse the leader acknowledges only heartbeats until a write of
// the document succeeds. A takeover breaks no promise of a heartbeat, and the heartbeat
// lets a worker keep its job until it can report.
//
// All standbys write the same object; it does not matter which of them wrote last. A
// leader that is cut off before it has read the first announcement does not know of the
// standby.

const standbyKey = "standby.json"

// The values of Config.RivalPolicy: what a leader does that cannot renew its heartbeat
// while a standby is known.
const (
	RivalRefuse   = "refuse"   // acknowledge nothing that a takeover would lose; the default
	RivalContinue = "continue" // acknowledge until MaxFlushLag is reached
)

// Standby is the announcement of a cluster that waits to take the document over.
type Standby struct {
	Cluster   string `json:"cluster"`
	Node      string `json:"node"`
	Address   string `json:"address"`   // of the node's HTTP API
	TimeoutMs int64  `json:"timeoutMs"` // the broker timeout of that cluster
	At        int64  `json:"at"`        // wall clock of that node; informative only
	// Waits says that the standby waits, in addition to its broker timeout, for the next
	// heartbeat that the document promises.
	Waits bool `json:"waits,omitempty"`
}

// String returns the node and the address of the standby, for logs and errors.
func (s *Standby) String() string { return fmt.Sprintf("node %s at %s", s.Node, s.Address) }

// standbyKept is the number of intervals without a new announcement after which a standby
// no longer counts.
const standbyKept = 3

// announcer remembers when this cluster announced itself last. The candidate's goroutine
// uses it.
type announcer struct{ last time.Time }

// announce writes the announcement of this cluster, if one is due. It takes at most an
// eighth of the broker timeout: a longer pause between two reads of the document would
// restart the measurement of its silence (election.Watch).
func (n *Leader) announce(ctx context.Context) {
	a := &n.announcer
	if !a.last.IsZero() && time.Since(a.last) < n.cfg.StandbyInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.BrokerTimeout/8)
	defer cancel()
	data, err := json.Marshal(Standby{
		Cluster: n.do.ClusterID(), Node: n.cfg.Name, Address: n.cfg.HTTPAdvertise,
		TimeoutMs: n.cfg.BrokerTimeout.Milliseconds(), At: n.cfg.Clock().UnixMilli(),
		Waits: true,
	})
	if err != nil {
		return // cannot happen: the fields are text and numbers
	}
	a.last = time.Now()
	var w storage.Write
	switch old, err := n.cfg.Bucket.Get(ctx, standbyKey); {
	case errors.Is(err, storage.ErrNotFound):
		w = n.cfg.Bucket.PutIfAbsent(ctx, standbyKey, data)
	case err != nil:
		w = storage.Write{Outcome: storage.Unknown, Err: err}
	default:
		w = n.cfg.Bucket.PutIfMatch(ctx, standbyKey, data, old.Version)
	}
	if w.Outcome == storage.Unknown { // after a conflict another standby has announced itself
		n.log.Debug("this standby could not announce itself", "error", w.Err)
	}
}

// watchStandby keeps r.standby up to date until ctx ends. A standby counts until it has
// announced nothing new for standbyKept intervals and this leader has renewed its own
// heartbeat since. A bucket that is unavailable, or looks empty, does not end a standby.
func (r *Term) watchStandby(ctx context.Context) {
	var version storage.Version
	var changed time.Time
	kept := standbyKept * r.cfg.StandbyInterval
	for {
		var s Standby
		o, err := r.readStandby(ctx)
		readable := err == nil || errors.Is(err, storage.ErrNotFound)
		switch {
		case !readable:
			r.log.Debug("the announcement of a standby could not be read", "error", err)
		case err == nil && o.Version != version:
			version = o.Version
			if json.Unmarshal(o.Data, &s) == nil && s.Cluster != r.do.ClusterID() {
				changed = time.Now()
				r.noteStandby(&s)
			}
		}
		if r.flusher.Renewed().After(changed.Add(kept)) {
			r.noteStandby(nil)
		}
		r.noteAlone(readable && r.standby.Load() == nil)
		if !sleep.For(ctx, StandbyLook(&r.cfg.Flush, r.cfg.StandbyInterval, r.cfg.BrokerTimeout)) {
			return
		}
	}
}

// StandbyLook returns the time between two reads of the announcement by the leader. With
// an idle heartbeat it is at most half of the broker timeout: a standby that does not
// know the promise in the document takes over one broker timeout after its first read.
func StandbyLook(f *flush.Config, interval, timeout time.Duration) time.Duration {
	if f.IdleHeartbeat > f.Heartbeat {
		return min(interval, timeout/2)
	}
	return interval
}

// noteAlone records whether the last read has shown that no standby is alive. If that
// ceases to hold, the leader writes the document at once, and then every Flush.Heartbeat.
func (r *Term) noteAlone(alone bool) {
	if r.alone.Swap(alone) && !alone && r.cfg.Flush.IdleHeartbeat > 0 {
		r.flusher.Rewrite()
	}
}

// idle reports whether the next heartbeat may come as late as Flush.IdleHeartbeat.
// Releases that know neither promises nor announcements refuse a document of
// promiseLevel.
func (r *Term) idle() bool {
	return r.alone.Load() && r.meta().Level >= promiseLevel
}

// promiseLevel is the feature level from which the document can promise its next
// heartbeat.
const promiseLevel = fsm.Level8

func (r *Term) readStandby(ctx context.Context) (storage.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return r.cfg.Bucket.Get(ctx, standbyKey)
}

func (r *Term) noteStandby(s *Standby) {
	switch before := r.standby.Swap(s); {
	case before == nil && s != nil:
		r.log.Info("a standby cluster has announced itself", "node", s.Node, "address", s.Address, "policy", r.cfg.RivalPolicy)
	case before != nil && s == nil:
		r.log.Info("the standby cluster does not announce itself any more", "node", before.Node, "address", before.Address)
	}
}

// RivalError is an ErrFlushLag: the leader could not renew its heartbeat for so long that
// a standby may have taken the document over.
type RivalError struct {
	Silent  time.Duration // time since the start of the last successful write of the document
	Standby string        // node and address of the standby
	Cause   string        // why the last write failed; "" if it has not ended
}

// Error returns the duration, the standby and the cause.
func (e *RivalError) Error() string {
	s := fmt.Sprintf("the heartbeat in the bucket has not been renewed for %v, and the standby cluster (%s) may have taken the queue over: "+
		"writes are refused until the bucket can be written again (--rival-policy)", e.Silent.Round(100*time.Millisecond), e.Standby)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}

// Unwrap makes it an ErrFlushLag.
func (*RivalError) Unwrap() error { return ErrFlushLag }

// rivalMargin is how long before a standby may take over the leader begins to refuse
// writes. Entries that were proposed before must be committed by then.
const rivalMargin = 250 * time.Millisecond

// rival returns why only heartbeats may be acknowledged now, or nil. The silence counts
// from the start of the last successful write: a standby has seen that write later.
func (r *Term) rival() *RivalError {
	s := r.standby.Load()
	if s == nil || r.cfg.RivalPolicy == RivalContinue {
		return nil
	}
	timeout := r.cfg.BrokerTimeout
	if theirs := time.Duration(s.TimeoutMs) * time.Millisecond; theirs > 0 {
		timeout = min(timeout, max(theirs, r.cfg.Flush.Heartbeat))
	}
	began, promised := r.flusher.Promised()
	silent, allowed := time.Since(began), timeout-min(rivalMargin, (timeout-r.cfg.Flush.Heartbeat)/2)
	if s.Waits {
		allowed += min(promised, queuefile.NextMax)
	}
	if silent <= allowed {
		return nil
	}
	return &RivalError{Silent: silent, Standby: s.String(), Cause: r.flusher.Failing()}
}

// IsHeartbeat reports whether a mutation consists of heartbeats of workers.
func IsHeartbeat(m *fsmpb.Mutation) bool { return proposal{m}.isHeartbeat() }

// isHeartbeat reports whether all mutations of the proposal are heartbeats of workers,
// and there is at least one.
func (p proposal) isHeartbeat() bool {
	for _, m := range p {
		switch op := m.Op.(type) {
		case *fsmpb.Mutation_Heartbeat:
		case *fsmpb.Mutation_Group:
			if !proposal(op.Group.Mutations).isHeartbeat() {
				return false
			}
		default:
			return false
		}
	}
	return len(p) > 0
}

// refuses returns why a proposal is refused now, or nil.
func (r *Term) refuses(p proposal) error {
	if e := r.rival(); e != nil && !p.isHeartbeat() {
		return e
	}
	if e := r.gate.refusal(); e != nil && !p.isReport() {
		return e
	}
	return nil
}
