package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// A cluster that waits for the document of another one writes standbyKey every
// Config.StandbyInterval. The active leader reads it as often. So a leader that is cut off
// from the bucket knows whether another cluster may have taken the document over by now.
// That cluster lacks every write that the leader acknowledges from then on. With
// RivalRefuse the leader acknowledges only heartbeats until a write of the document
// succeeds. A heartbeat promises nothing that a takeover could break, and lets a worker
// keep its job until it can report.
//
// All standbys write the same object: which of them wrote last does not matter. A leader
// that is cut off before it has read the first announcement does not know of the standby.

const standbyKey = "standby.json"

// The policies of a leader that cannot renew its heartbeat while a standby is known.
const (
	RivalRefuse   = "refuse"   // acknowledge nothing that a takeover would lose; the default
	RivalContinue = "continue" // acknowledge until MaxFlushLag is reached
)

// Standby is a cluster that waits to take the document over.
type Standby struct {
	Cluster   string `json:"cluster"`
	Node      string `json:"node"`
	Address   string `json:"address"`   // of the node's HTTP API
	TimeoutMs int64  `json:"timeoutMs"` // the broker timeout of that cluster
	At        int64  `json:"at"`        // that node's wall clock, for people
	// Waits says that the standby waits, in addition to its broker timeout, for the
	// heartbeat that the document promises.
	Waits bool `json:"waits,omitempty"`
}

// String names the standby, for people.
func (s *Standby) String() string { return fmt.Sprintf("node %s at %s", s.Node, s.Address) }

// standbyKept is for how many intervals a standby that announces nothing new still counts.
const standbyKept = 3

// announcer writes this cluster's announcement. It is used by one goroutine.
type announcer struct{ last time.Time }

// announce tells the document's leader that this cluster stands by, if that is due. It
// takes only a fraction of the broker timeout: a longer pause between two looks at the
// document would start the count of its silence again.
func (n *Node) announce(ctx context.Context) {
	a := &n.announcer
	if !a.last.IsZero() && time.Since(a.last) < n.cfg.StandbyInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.BrokerTimeout/8)
	defer cancel()
	data, err := json.Marshal(Standby{
		Cluster: n.clusterID(), Node: n.cfg.Name, Address: n.cfg.HTTPAdvertise,
		TimeoutMs: n.cfg.BrokerTimeout.Milliseconds(), At: n.cfg.Clock().UnixMilli(),
		Waits: true,
	})
	if err != nil {
		return // it is text and numbers
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
	if w.Outcome == storage.Unknown { // a conflict is the announcement of another standby
		n.log.Debug("this standby could not announce itself", "error", w.Err)
	}
}

// watchStandby keeps r.standby up to date until ctx ends. A standby counts until it has
// announced nothing new for some intervals and this leader has renewed its own heartbeat
// since: a bucket that is away, or looks empty, makes no standby go.
func (r *reign) watchStandby(ctx context.Context) {
	var version storage.Version
	var changed time.Time
	kept := standbyKept * r.node.cfg.StandbyInterval
	for {
		var s Standby
		o, err := r.readStandby(ctx)
		readable := err == nil || errors.Is(err, storage.ErrNotFound)
		switch {
		case !readable:
			r.log.Debug("the announcement of a standby could not be read", "error", err)
		case err == nil && o.Version != version:
			version = o.Version
			if json.Unmarshal(o.Data, &s) == nil && s.Cluster != r.node.clusterID() {
				changed = time.Now()
				r.noteStandby(&s)
			}
		}
		if r.flusher.Renewed().After(changed.Add(kept)) {
			r.noteStandby(nil)
		}
		r.noteAlone(readable && r.standby.Load() == nil)
		if !sleep(ctx, r.node.cfg.standbyLook()) {
			return
		}
	}
}

// standbyLook is the time between two looks of the leader for a standby. With an idle
// heartbeat it is at most half of the broker timeout: a standby that does not know the
// promise in the document takes over one broker timeout after its first look.
func (c *Config) standbyLook() time.Duration {
	if c.Flush.IdleHeartbeat > c.Flush.Heartbeat {
		return min(c.StandbyInterval, c.BrokerTimeout/2)
	}
	return c.StandbyInterval
}

// noteAlone notes whether the last look has shown that no standby is alive. If it has not,
// the leader writes at once, and keeps the pace of Flush.Heartbeat.
func (r *reign) noteAlone(alone bool) {
	if r.alone.Swap(alone) && !alone && r.node.cfg.Flush.IdleHeartbeat > 0 {
		r.flusher.Rewrite()
	}
}

// idle reports whether the next heartbeat may come as late as Flush.IdleHeartbeat says. A
// document of promiseLevel is refused by the releases that know neither promises nor
// announcements.
func (r *reign) idle() bool { return r.alone.Load() && r.node.replica.meta().Level >= promiseLevel }

// promiseLevel is the feature level from which the document can promise its next heartbeat.
const promiseLevel = fsm.Level8

func (r *reign) readStandby(ctx context.Context) (storage.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return r.node.cfg.Bucket.Get(ctx, standbyKey)
}

func (r *reign) noteStandby(s *Standby) {
	switch before := r.standby.Swap(s); {
	case before == nil && s != nil:
		r.log.Info("a standby cluster has announced itself", "node", s.Node, "address", s.Address, "policy", r.node.cfg.RivalPolicy)
	case before != nil && s == nil:
		r.log.Info("the standby cluster does not announce itself any more", "node", before.Node, "address", before.Address)
	}
}

// RivalError is an ErrFlushLag: the heartbeat could not be renewed for so long that a
// standby may have taken the document over.
type RivalError struct {
	Silent  time.Duration // since the last write of the document that succeeded
	Standby string        // for people
	Cause   string        // why the last write failed; "" if it has not ended
}

// Error says what may have happened, and what ends it.
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

// rivalMargin is how long before a standby may take over writes are refused: what was
// proposed before has to be committed by then.
const rivalMargin = 250 * time.Millisecond

// rival is why nothing but heartbeats may be acknowledged now, or nil. The time counts from
// the beginning of the last write that succeeded: a standby has seen it later than that.
func (r *reign) rival() *RivalError {
	s := r.standby.Load()
	if s == nil || r.node.cfg.RivalPolicy == RivalContinue {
		return nil
	}
	timeout := r.node.cfg.BrokerTimeout
	if theirs := time.Duration(s.TimeoutMs) * time.Millisecond; theirs > 0 {
		timeout = min(timeout, max(theirs, r.node.cfg.Flush.Heartbeat))
	}
	began, promised := r.flusher.Promised()
	silent, allowed := time.Since(began), timeout-min(rivalMargin, (timeout-r.node.cfg.Flush.Heartbeat)/2)
	if s.Waits {
		allowed += min(promised, queuefile.NextMax)
	}
	if silent <= allowed {
		return nil
	}
	return &RivalError{Silent: silent, Standby: s.String(), Cause: r.flusher.Failing()}
}

// isHeartbeat reports whether all of the proposal are heartbeats of workers.
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

// refuses is why a proposal is refused now, or nil.
func (r *reign) refuses(p proposal) error {
	if e := r.rival(); e != nil && !p.isHeartbeat() {
		return e
	}
	if e := r.gate.refusal(); e != nil && !p.isReport() {
		return e
	}
	return nil
}
