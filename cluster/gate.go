package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A bucket that is away does not stop the quorum, but what is acked and not in the
// bucket must not grow for ever. So the gate closes when the oldest of it is
// older than MaxFlushLag, and opens when the bucket has caught up to half of that.
// Reports pass it: they bring no new work, and a worker whose lease cannot be renewed
// would have to abort its jobs. It closes, too, while a standby cluster may have taken the
// document over; only heartbeats pass it then (standby.go). While it is closed no entry lets time pass but those
// of reports; when it opens, all leases start afresh, as after a takeover.
type gate struct {
	refused atomic.Pointer[error] // an ErrFlushLag

	// Of the watcher's goroutine.
	awaySince time.Time // when the flusher began to fail; zero: it does not
	announced bool      // that the bucket is away
}

// refusal is why writes are refused now, or nil.
func (g *gate) refusal() error {
	if e := g.refused.Load(); e != nil {
		return *e
	}
	return nil
}

// isReport tells whether a mutation is what a worker says of a job that it holds.
func isReport(m *fsmpb.Mutation) bool {
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_Heartbeat, *fsmpb.Mutation_Complete, *fsmpb.Mutation_ForceComplete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release:
		return true
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.Mutations {
			if !isReport(part) {
				return false
			}
		}
		return true
	}
	return false
}

// isReport tells whether all of the proposal are reports.
func (p proposal) isReport() bool {
	for _, m := range p {
		if !isReport(m) {
			return false
		}
	}
	return len(p) > 0
}

// Refusal is why this node takes no writes but reports now though it leads: nil, or an
// ErrFlushLag. Propose looks for itself; this is for who would write only if there
// were something to write.
func (n *Node) Refusal() error {
	if r := n.active(); r != nil {
		return r.gate.refusal()
	}
	return nil
}

// lag is the age of the oldest write that the bucket does not have.
func (r *reign) lag() time.Duration {
	at := r.node.journal.OldestMs()
	if at == 0 {
		return 0
	}
	return time.Duration(max(r.clock.now()-at, 0)) * time.Millisecond
}

// watchBucket opens and closes the gate, and tells everybody how the bucket is.
func (r *reign) watchBucket(ctx context.Context) {
	r.watchGate(ctx)
	r.watchTrouble(ctx)
}

func (r *reign) watchGate(ctx context.Context) {
	lag, most := r.lag(), r.node.cfg.MaxFlushLag
	closed, rival := r.gate.refused.Load() != nil, r.rival()
	switch {
	case rival != nil:
		r.refuse(ctx, rival)
	case closed && (most == 0 || lag <= most/2):
		if err := r.register(ctx, announce(fsm.AnnounceWritesAccepted, "")); err != nil {
			r.log.Warn("cannot take writes again yet", "error", err)
			return
		}
		r.gate.refused.Store(nil)
		r.log.Info("the bucket has caught up; writes are taken again")
	case most > 0 && lag > most:
		r.refuse(ctx, &FlushLagError{Lag: lag, Max: most, Cause: r.flusher.Failing()})
	}
}

// refuse closes the gate, or renews the reason why it is closed.
func (r *reign) refuse(ctx context.Context, why error) {
	if r.gate.refused.Swap(&why) == nil {
		r.log.Error("writes are refused", "reason", why)
		r.tell(ctx, fsm.AnnounceWritesRefused, why.Error())
	}
}

// watchTrouble announces a bucket that has been away for longer than a heartbeat. While
// the gate is closed it is silent: an announcement is an entry, and with it time would
// pass. What closed the gate has been told.
func (r *reign) watchTrouble(ctx context.Context) {
	g, reason := &r.gate, r.flusher.Failing()
	switch {
	case reason == "":
		if g.announced && g.refusal() == nil {
			r.tell(ctx, fsm.AnnounceBucketBack, "")
			g.announced = false
		}
		g.awaySince = time.Time{}
	case g.awaySince.IsZero():
		g.awaySince = time.Now()
	case !g.announced && g.refusal() == nil && time.Since(g.awaySince) > r.node.cfg.Flush.Heartbeat:
		g.announced = true
		r.tell(ctx, fsm.AnnounceBucketAway, reason)
	}
}

// tell makes an event of how the bucket is. Losing one harms nobody.
func (r *reign) tell(ctx context.Context, kind fsm.AnnounceKind, text string) {
	if _, err := r.proposals.Do(ctx, proposal{announce(kind, text)}); err != nil {
		r.log.Debug("an event got lost", "kind", kind, "error", err)
	}
}

func announce(kind fsm.AnnounceKind, text string) *fsmpb.Mutation {
	op := &fsmpb.Announce{Kind: uint32(kind), Text: text}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: op}}
}
