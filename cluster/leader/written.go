package leader

import (
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// The forms of the document.
const (
	FormInline  = "inline"  // the document contains the state
	FormArchive = "archive" // the state is in a checkpoint and a log
)

// written describes the last version of the document that this leader has written.
type written struct {
	bytes         int
	form          string
	base, archive fsm.LSN
	log           int64
	root          *queuefile.Archive // objects that the document names; nil: none
}

// wrote records the content of the document after a flush, and trims the unflushed log.
// The flusher calls it.
func (r *Term) wrote(w flush.Written) {
	r.cfg.Unflushed.Flushed(w.Content.LSN())
	r.cfg.Unflushed.Trim(w.Kept)
	r.kept.Store(&w.Kept)
	d := &written{bytes: w.Bytes, form: FormInline}
	if w.Large {
		d.form = FormArchive
	}
	if a := w.Content.Archive; a != nil {
		d.base, d.archive, d.root = a.Base.LSN, a.LSN(), a
		for i := range a.Log {
			d.log += a.Log[i].Stored
		}
	}
	r.written.Store(d)
}

// flushInterval returns the least time between two flushes.
func (n *base) flushInterval() time.Duration {
	if n.cfg.FlushInterval != nil {
		return n.cfg.FlushInterval()
	}
	return n.cfg.Flush.Interval
}
