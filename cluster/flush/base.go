package flush

import (
	"context"
	"time"

	"osqueue/fsm"
	"osqueue/storage/archive"
)

// baseRetry is how long after a failed attempt the next base may be begun.
const baseRetry = 2 * time.Second

// compact begins a base if the log has outgrown the last one, or it is to be renewed. v is where the line
// ends.
func (d *Drafter) compact(ctx context.Context, v *fsm.View) {
	l := d.line
	if d.base != nil || l.base == nil || time.Now().Before(d.rest) ||
		!d.renew.Load() && !d.cfg.baseDue(l.base.Stored, l.stored(), len(l.refs)) {
		return
	}
	if err := d.cutTail(ctx); err != nil {
		d.log.Debug("the base has to wait", "error", err)
		return
	}
	d.renew.Store(false)
	d.writeBase(v, v.LSN())
}

// begin begins a new line. The first one begins at the state with which the
// document was acquired, so that all since then can be restored; any other at v,
// with a base that bridges what is not recorded since the line before. What that
// has in its tail is not to be lost.
func (d *Drafter) begin(ctx context.Context, v *fsm.View) error {
	if d.base != nil || time.Now().Before(d.rest) {
		return nil // one after the other
	}
	if d.line != nil {
		if err := d.cutTail(ctx); err != nil {
			return err
		}
		d.from = d.line.last()
	}
	if d.origin != nil {
		if _, _, ok := d.journal.Range(d.origin.LSN(), v.LSN(), 0); ok {
			v = d.origin
		}
	}
	if d.from != v.LSN() {
		d.log.Warn("a new base bridges entries that the bucket never got", "from", d.from, "to", v.LSN())
	}
	d.line = begin(v.LSN())
	d.writeBase(v, d.from)
	return nil
}

// writeBase has v written in the background.
func (d *Drafter) writeBase(v *fsm.View, prev fsm.LSN) {
	p := &pendingBase{at: v.LSN(), done: make(chan struct{})}
	d.base = p
	d.wg.Go(func() {
		p.base, p.err = archive.WriteBase(d.ctx, d.bucket, d.lineage, prev, v)
		close(p.done)
		if wake := d.wake.Load(); wake != nil {
			(*wake)()
		}
	})
}

// takeBase takes in a base that is finished.
func (d *Drafter) takeBase() {
	p := d.base
	if p == nil {
		return
	}
	select {
	case <-p.done:
	default:
		return
	}
	d.base = nil
	switch {
	case p.err != nil:
		d.log.Warn("a base could not be written; trying again", "error", p.err)
		d.rest = time.Now().Add(baseRetry)
		d.renew.Store(true)
		if d.line != nil && d.line.base == nil {
			d.line = nil
		}
	case d.line != nil:
		d.origin = nil
		d.line.rebase(&p.base)
		d.log.Debug("a base is in the bucket", "lsn", p.base.LSN, "bytes", p.base.Stored)
	}
}
