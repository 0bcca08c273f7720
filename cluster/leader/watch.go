package leader

import (
	"context"
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
)

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
	t.cfg.Unflushed.Flushed(w.Content.LSN())
	t.noteVersion(t.fence.Lineage(), t.fence.Epoch(), w.Content.LSN())
	t.cfg.Unflushed.Trim(w.Kept)
	t.kept.Store(&w.Kept)
	a := w.Content.Archive
	d := &written{bytes: w.Bytes, viewed: w.Viewed, checkpoint: a.Checkpoint.LSN, archive: a.LSN(), root: a}
	for i := range a.Log {
		d.log += a.Log[i].Stored
	}
	t.written.Store(d)
}
