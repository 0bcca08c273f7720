package leader

import (
	"osqueue/cluster/flush"
)

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
