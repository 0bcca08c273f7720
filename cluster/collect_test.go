package cluster

import (
	"fmt"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/queuefile"
)

// The active leader removes the objects that are past the window, and the rest can still
// be restored.
func TestCollection(t *testing.T) {
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) {
		c.Flush.InlineMax, c.Flush.TailMin, c.Flush.TailMax, c.Flush.BaseMin = 2, 1, 1, 0
		c.Flush.FoldAt, c.Flush.RefsMax = 2, 3
		c.Flush.Interval = time.Millisecond
		c.PITRWindow, c.CollectInterval = time.Millisecond, 20*time.Millisecond
	})...)
	l.eventually("the first base", func() bool { return l.document().Archive != nil })
	first := l.document().Archive.Base.LSN
	l.eventually("the first base to be collected", func() bool {
		lsn := l.enqueue(n, fmt.Sprint("job ", time.Now().UnixNano()))
		if err := n.WaitFlushed(t.Context(), lsn); err != nil {
			t.Fatal(err)
		}
		h, err := archive.Open(t.Context(), l.bucket, DocumentKey)
		return err == nil && len(h.Spans()) > 0 && h.Spans()[0].From.Compare(first) > 0
	})
	n.stop()
	report, err := archive.Verify(t.Context(), l.bucket, DocumentKey, archive.VerifyOptions{})
	if err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// A leader whose document is not fresh, by its own clock, must not remove anything: a
// repair that puts an old document back may have replaced the document.
func TestCollectionByASleeper(t *testing.T) {
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	l.enqueue(n, "a")
	l.eventually("the flush", func() bool { return l.document().Counts[fsm.Unclaimed] == 1 })
	r := n.leader.current.Load()
	if ok, err := r.stillAlive(t.Context()); !ok || err != nil {
		t.Fatalf("a leader in its prime: %v, %v", ok, err)
	}
	for what, change := range map[string]func(*queuefile.Document){
		"stale":       func(d *queuefile.Document) { d.BrokerHeartbeat -= n.cfg.BrokerTimeout.Milliseconds() },
		"a repair's":  func(d *queuefile.Document) { d.Header.Epoch++ },
		"overtaken":   func(d *queuefile.Document) { d.Overtaken = true },
		"an original": func(d *queuefile.Document) { d.Header = nil },
	} {
		d := l.document()
		if change(d); r.alive(d) {
			t.Errorf("%s: it is taken for this leaderTerm's", what)
		}
	}
	if err := l.bucket.Delete(t.Context(), DocumentKey); err != nil {
		t.Fatal(err)
	}
	if seen, err := n.leader.readDocument(t.Context()); err == nil && seen.Doc == nil && r.alive(seen.Doc) {
		t.Error("no document is taken for this leaderTerm's")
	}
}
