package cluster

import (
	"testing"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// One copy of a document is stored, however often the write after it fails.
func TestOneCopyOfADocument(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	l.flushed(n, l.enqueue(n, "a"))
	older, err := l.bucket.Get(t.Context(), DocumentKey)
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	l.flushed(n, l.enqueue(n, "b"))
	n.stop()
	obj, err := l.bucket.Get(t.Context(), DocumentKey)
	if err != nil {
		t.Fatal(err)
	}
	if w := l.bucket.PutIfMatch(t.Context(), DocumentKey, older.Data, obj.Version); w.Outcome != storage.Committed {
		t.Fatalf("%+v", w)
	}

	faults := fault.New(l.bucket, 1)
	refused := faults.Inject(fault.Rule{Kind: fault.Throttle, Ops: []storage.Op{storage.OpPutIfMatch}, KeyPrefix: DocumentKey})
	back := l.again(n, n.cfg.DataDir, func(c *Config) { c.Bucket = faults })
	l.eventually("three attempts", func() bool { return refused.Hits() >= 3 })
	if got := l.copies(); got != 1 {
		t.Errorf("%d copies of one document after %d attempts", got, refused.Hits())
	}
	refused.Stop()
	if n = l.leader(back); n.Job("b") == nil {
		t.Error("job b is lost")
	}
	if got := l.copies(); got != 1 {
		t.Errorf("%d copies of one document", got)
	}
}
