package leader

import (
	"context"
	"sync/atomic"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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
	announced bool      // the event that the bucket is unavailable was proposed
}

// refusal returns why writes are refused now, or nil.
func (g *gate) refusal() error {
	if e := g.refused.Load(); e != nil {
		return *e
	}
	return nil
}

// IsReport reports whether a mutation is a worker's report on a job that it has leased.
func IsReport(m *fsmpb.Mutation) bool {
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_Heartbeat, *fsmpb.Mutation_Complete, *fsmpb.Mutation_ForceComplete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release:
		return true
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.Mutations {
			if !IsReport(part) {
				return false
			}
		}
		return true
	}
	return false
}

// isReport reports whether all mutations of the proposal are reports, and there is at
// least one.
func (p proposal) isReport() bool {
	for _, m := range p {
		if !IsReport(m) {
			return false
		}
	}
	return len(p) > 0
}

// lag returns the age of the oldest write that the bucket does not have.
func (r *Term) lag() time.Duration {
	at := r.cfg.Unflushed.OldestMs()
	if at == 0 {
		return 0
	}
	return time.Duration(max(r.clock.now()-at, 0)) * time.Millisecond
}

// watchBucket opens and closes the gate, and announces the state of the bucket as events.
func (r *Term) watchBucket(ctx context.Context) {
	r.watchGate(ctx)
	r.watchTrouble(ctx)
}

func (r *Term) watchGate(ctx context.Context) {
	lag, most := r.lag(), r.cfg.MaxFlushLag
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

// refuse closes the gate, or replaces the reason if it is closed already.
func (r *Term) refuse(ctx context.Context, why error) {
	if r.gate.refused.Swap(&why) == nil {
		r.log.Error("writes are refused", "reason", why)
		r.tell(ctx, fsm.AnnounceWritesRefused, why.Error())
	}
}

// watchTrouble announces an outage of the bucket that has lasted longer than a heartbeat.
// While the gate is closed it announces nothing, because an announcement is an entry that
// lets time pass; the reason for which the gate closed was announced before.
func (r *Term) watchTrouble(ctx context.Context) {
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
	case !g.announced && g.refusal() == nil && time.Since(g.awaySince) > r.cfg.Flush.Heartbeat:
		g.announced = true
		r.tell(ctx, fsm.AnnounceBucketAway, reason)
	}
}

// tell proposes an event about the state of the bucket. If it fails, only the event is
// lost.
func (r *Term) tell(ctx context.Context, kind fsm.AnnounceKind, text string) {
	if _, err := r.proposals.Do(ctx, proposal{announce(kind, text)}); err != nil {
		r.log.Debug("an event got lost", "kind", kind, "error", err)
	}
}

func announce(kind fsm.AnnounceKind, text string) *fsmpb.Mutation {
	op := &fsmpb.Announce{Kind: uint32(kind), Text: text}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: op}}
}
