package leader

import (
	"osqueue/cluster/flush"
)

// The forms of the document.
const (
	FormInline  = "inline"  // the document contains the state
	FormArchive = "archive" // the state is in a checkpoint and a log
)

// wrote records the content of the document after a flush, and trims the unflushed log.
// The flusher calls it.
func (t *Term) wrote(w flush.Written) {
	t.cfg.Unflushed.Flushed(w.Content.LSN())
	t.cfg.Unflushed.Trim(w.Kept)
	t.kept.Store(&w.Kept)
	d := &written{bytes: w.Bytes, form: FormInline}
	if w.Large {
		d.form = FormArchive
	}
	if a := w.Content.Archive; a != nil {
		d.checkpoint, d.archive, d.root = a.Checkpoint.LSN, a.LSN(), a
		for i := range a.Log {
			d.log += a.Log[i].Stored
		}
	}
	t.written.Store(d)
}
