package cluster

import (
	"testing"
	"time"

	"osqueue/cluster/leader"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// A document with an empty state, which a repair that found no other could write, does
// not remove the jobs of nodes that have their disks.
func TestNodesKeepTheirStateOverAnEmptyDocument(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	lsn := l.enqueue(n, "a", "b")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	n.stop()

	old := l.document().Header
	empty := &document.Content{Archive: &document.Archive{}, Jobs: fsm.New().View(), ViewMax: document.ViewMax}
	l.put(string(document.Encode(empty, document.Header{
		Lineage: old.Lineage, Epoch: 1 << 10, Node: "repair", Write: "w", Writes: []string{"w"},
	}, "", time.Now().UnixMilli())))
	back := l.leader(l.again(n, n.cfg.DataDir, nil))
	if back.Job("a") == nil || back.Job("b") == nil {
		t.Fatal("the jobs are gone")
	}
	l.eventually("the document to have the jobs again", func() bool {
		d := l.document()
		return d.Header.Counts[fsm.Unclaimed] == 2 && d.Header.Lineage == old.Lineage && d.Header.Epoch > 1<<10
	})
}

// An empty cluster does not begin a new queue next to the archive of a cluster that has
// lost its document. The error names the command that restores the document.
func TestAnEmptyClusterIsRefusedBesideAnArchive(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) { c.Flush.TailMax, c.Flush.TailMin = 64, 16 })...)
	l.enqueue(n, "a")
	l.eventually("a segment", func() bool {
		found := false
		err := l.bucket.List(t.Context(), "log/", func(storage.Info) bool { found = true; return false })
		return err == nil && found
	})
	n.stop()
	if err := l.bucket.Delete(t.Context(), DocumentKey); err != nil {
		t.Fatal(err)
	}

	empty := l.start("e", 1, nil)[0]
	l.eventually("the refusal", func() bool {
		s := empty.Status()
		return s.Fence == FenceRefused && s.FenceReason == leader.ErrOrphan.Error()
	})
	if _, err := l.bucket.Get(t.Context(), DocumentKey); err == nil {
		t.Fatal("it has begun a queue")
	}
	empty.stop()

	// A node that has its disk writes the document again, if the bucket is marked.
	if w := l.bucket.PutIfAbsent(t.Context(), storage.MarkerKey, storage.NewMarker()); w.Err != nil {
		t.Fatal(w.Err)
	}
	back := l.leader(l.again(n, n.cfg.DataDir, nil))
	if back.Job("a") == nil {
		t.Fatal("the job is gone")
	}
	l.eventually("the document", func() bool {
		_, err := l.bucket.Get(t.Context(), DocumentKey)
		return err == nil
	})
}
