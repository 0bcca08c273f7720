package cluster

import (
	"testing"
	"time"

	"osqueue/fsm"
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
	empty := &document.Content{Archive: &document.Archive{}, Jobs: fsm.New().View(), ViewMax: document.ViewMax, Meta: new(fsm.Meta)}
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
