package flush

import (
	"context"
	"time"

	"osqueue/fsm"
	"osqueue/storage/archive"
)

// checkpointRetry is the pause between a failed checkpoint and the next attempt.
const checkpointRetry = 2 * time.Second

// compact starts a checkpoint if the log has outgrown the last one, or if renew is set. The
// line must end at v.
func (d *DocumentBuilder) compact(ctx context.Context, v *fsm.View) {
	l := d.line
	if d.checkpoint != nil || l.checkpoint == nil || time.Now().Before(d.rest) ||
		!d.renew.Load() && !d.cfg.checkpointDue(l.checkpoint.Stored, l.stored(), len(l.refs)) {
		return
	}
	if err := d.cutTail(ctx); err != nil {
		d.log.Debug("the checkpoint is deferred", "error", err)
		return
	}
	prev := v.LSN()
	if d.renew.Swap(false) { // what is damaged may be a part of the log
		if prev = l.checkpoint.LSN; prev == v.LSN() {
			prev = l.checkpoint.Prev
		}
	}
	d.writeCheckpoint(v, prev)
}

// begin starts a new line at v, with a checkpoint that bridges the entries that are missing
// since the previous line. It first seals the tail of the previous line, so that it is not
// lost.
func (d *DocumentBuilder) begin(ctx context.Context, v *fsm.View) error {
	if d.checkpoint != nil || time.Now().Before(d.rest) {
		return nil // one checkpoint at a time
	}
	if d.line != nil {
		if err := d.cutTail(ctx); err != nil {
			return err
		}
		d.from = d.line.last()
	}
	if d.from != v.LSN() {
		d.log.Warn("wrote a new checkpoint, because the bucket lacks older log entries", "from", d.from, "to", v.LSN())
	}
	d.line = begin(v.LSN())
	d.writeCheckpoint(v, d.from)
	return nil
}

// writeCheckpoint starts a goroutine that writes a checkpoint of v. The goroutine sets checkpoint and
// err, closes done, and then calls wake so that the flusher drafts again.
func (d *DocumentBuilder) writeCheckpoint(v *fsm.View, prev fsm.LSN) {
	p := &pendingCheckpoint{at: v.LSN(), done: make(chan struct{})}
	d.checkpoint = p
	d.wg.Go(func() {
		p.checkpoint, p.err = archive.WritePacedCheckpoint(d.ctx, d.bucket, d.lineage, prev, v)
		close(p.done)
		if wake := d.wake.Load(); wake != nil {
			(*wake)()
		}
	})
}

// takeCheckpoint adds a finished checkpoint to the line. It does not wait.
func (d *DocumentBuilder) takeCheckpoint() {
	p := d.checkpoint
	if p == nil {
		return
	}
	select {
	case <-p.done:
	default:
		return
	}
	d.checkpoint = nil
	switch {
	case p.err != nil:
		d.log.Warn("cannot write a checkpoint; trying again", "error", p.err)
		d.rest = time.Now().Add(checkpointRetry)
		d.renew.Store(true)
		if d.line != nil && d.line.checkpoint == nil {
			d.line = nil
		}
	case d.line != nil:
		d.line.rebase(&p.checkpoint, archive.Keep(d.last.Archive, &p.checkpoint, d.cfg.Window))
		d.log.Debug("wrote a checkpoint", "lsn", p.checkpoint.LSN, "bytes", p.checkpoint.Stored)
	}
}
