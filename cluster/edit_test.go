package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// stored returns the document in the bucket.
func (l *lab) stored() string {
	l.t.Helper()
	obj, err := l.bucket.Get(l.t.Context(), DocumentKey)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(obj.Data)
}

// byHand returns a document with one more job, at the beginning of its list.
func byHand(data, id string) string {
	return strings.Replace(data, `"jobs":[`, `"jobs":[{"id":"`+id+`","status":"unclaimed","payload":7,"createdAt":1,"attempts":0},`, 1)
}

// Changes that are made in the document while no leader is active are taken over, and a
// copy of the document is stored.
func TestEditsBetweenLeadersAreTakenIn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	lsn := l.enqueue(n, "a", "b")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	n.stop()
	l.put(byHand(l.stored(), "by-hand"))
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	l.eventually("the job", func() bool { return n.Job("by-hand") != nil })
	if n.Job("a") == nil || l.copies() != 1 {
		t.Errorf("job a %v, %d copies", n.Job("a"), l.copies())
	}
	l.eventually("the flush", func() bool {
		d := l.document()
		return d.Header.Counts.Sum() == 3 && d.Header.LSN() == n.View().LSN()
	})

	// Other changes are replaced; the copy contains them.
	n.stop()
	l.put(strings.Replace(strings.Replace(l.stored(), `"id":"b"`, `"id":"b","priority":5`, 1), `{"broker"`, `{"team":"blue","broker"`, 1))
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	if j := n.Job("b"); j == nil || j.Priority != 0 || l.copies() != 2 {
		t.Errorf("job b %+v, %d copies", j, l.copies())
	}

	// Without an edit there is no copy.
	l.eventually("the flush", func() bool { return l.document().Header.LSN() == n.View().LSN() })
	n.stop()
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	if l.copies() != 2 {
		t.Errorf("%d copies after a restart", l.copies())
	}
}

// Jobs in an old copy of the document are not enqueued, whether they have ended since or were
// added to it, and whether a leader is active or not.
func TestAnOldCopyEnqueuesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	forget := func(c *Config) { c.Settings.RetainCompletedCount = 0 }
	n := l.leader(l.start("n", 1, forget)...)
	lsn := l.enqueue(n, "ended", "stays")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	old := l.stored()

	j := l.claim(n, "w")
	if j.ID != "ended" {
		t.Fatalf("claimed %s", j.ID)
	}
	_, _, err := n.Propose(t.Context(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: "w", Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token},
	}}})
	if err != nil || n.Job("ended") != nil {
		t.Fatalf("%v, %+v", err, n.Job("ended"))
	}
	l.eventually("the flush", func() bool { return l.document().Header.Counts == fsm.Counts{fsm.Unclaimed: 1} })

	l.put(byHand(old, "first"))
	l.eventually("a copy", func() bool { return l.copies() == 1 })
	l.eventually("the flush", func() bool { return l.document().Header.Counts == fsm.Counts{fsm.Unclaimed: 1} })
	if n.Job("ended") != nil || n.Job("stays") == nil || n.Job("first") != nil {
		t.Error("jobs of an old copy are in the queue")
	}
	if c := n.Status().DocumentCopies; c.Count != 1 || !strings.HasPrefix(c.Last, "conflicts/") {
		t.Errorf("the status has the copies %+v", c)
	}

	n.stop()
	n = l.leader(l.again(n, n.cfg.DataDir, forget)) // of a later epoch than the copy
	l.eventually("the flush", func() bool { return l.document().Header.LSN() == n.View().LSN() })
	n.stop()
	l.put(byHand(old, "second"))
	n = l.leader(l.again(n, n.cfg.DataDir, forget))
	l.eventually("the flush", func() bool { return l.document().Header.LSN() == n.View().LSN() })
	if n.Job("ended") != nil || n.Job("stays") == nil || n.Job("second") != nil || l.copies() != 2 {
		t.Errorf("jobs of an old copy are in the queue, or %d copies", l.copies())
	}
}

// versions is a bucket that records the versions of the document.
type versions struct {
	storage.Bucket
	mu   sync.Mutex
	kept []string
}

func (b *versions) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	w := b.Bucket.PutIfMatch(ctx, key, data, v)
	if key == DocumentKey && w.Outcome == storage.Committed {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.kept = append(b.kept, string(data))
	}
	return w
}

// A job that is added to the document while no leader is active is in the first version
// that a new leader writes, because the leader can die after any write.
func TestNoVersionIsWithoutAnEditBetweenLeaders(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	b := &versions{Bucket: l.bucket}
	l.bucket = b
	n := l.leader(l.start("n", 1, nil)...)
	lsn := l.enqueue(n, "a")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	n.stop()
	l.put(byHand(l.stored(), "by-hand"))
	b.mu.Lock()
	b.kept = nil
	b.mu.Unlock()
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	n.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) == 0 {
		t.Fatal("the new leader wrote no version")
	}
	for i, version := range b.kept {
		if !strings.Contains(version, `"by-hand"`) {
			t.Errorf("version %d of %d lacks the edit: %s", i+1, len(b.kept), version)
		}
	}
}

// refusing is a bucket that refuses all writes of the document while shut is set.
type refusing struct {
	storage.Bucket
	shut atomic.Bool
}

func (b *refusing) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	if key == DocumentKey && b.shut.Load() {
		return storage.Write{Outcome: storage.Unknown, Err: storage.ErrThrottled}
	}
	return b.Bucket.PutIfMatch(ctx, key, data, v)
}

// A job that the document shows, and that is deleted or purged before the next flush, does not run
// again after an edit, whether a leader is active or not.
func TestAnEditDoesNotBringARemovedJobBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	b := &refusing{Bucket: l.bucket}
	l.bucket = b
	remove := func(n *member, kind fsm.ChangeKind, ids ...string) {
		t.Helper()
		op := &fsmpb.Change{Kind: uint32(kind), Ids: ids}
		_, _, err := n.Propose(t.Context(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}})
		if err != nil || n.Job(ids[0]) != nil {
			t.Fatalf("remove %s: %v", ids[0], err)
		}
	}
	edit := func(id string) {
		t.Helper()
		obj, err := b.Get(t.Context(), DocumentKey)
		if err != nil {
			t.Fatal(err)
		}
		if w := b.Bucket.PutIfMatch(t.Context(), DocumentKey, []byte(byHand(string(obj.Data), id)), obj.Version); w.Outcome != storage.Committed {
			t.Fatal(w.Err)
		}
		b.shut.Store(false)
	}
	n := l.leader(l.start("n", 1, nil)...)
	lsn := l.enqueue(n, "deleted", "stays", "deleted-later")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	b.shut.Store(true)
	remove(n, fsm.DeleteJobs, "deleted")
	edit("first")
	l.eventually("the new job", func() bool { return n.Job("first") != nil })
	if n.Job("deleted") != nil || n.Job("stays") == nil {
		t.Error("the edit brought a deleted job back")
	}
	l.eventually("the flush", func() bool { return l.document().Header.LSN() == n.View().LSN() })

	b.shut.Store(true)
	remove(n, fsm.DeleteJobs, "deleted-later")
	n.stop()
	edit("second")
	n = l.leader(l.again(n, n.cfg.DataDir, nil))
	if n.Job("second") == nil || n.Job("deleted-later") != nil || n.Job("stays") == nil {
		t.Errorf("new job %v, deleted job %v, other job %v", n.Job("second"), n.Job("deleted-later"), n.Job("stays"))
	}
}

func (l *lab) copies() (n int) {
	l.t.Helper()
	if err := l.bucket.List(l.t.Context(), "conflicts/", func(storage.Info) bool { n++; return true }); err != nil {
		l.t.Fatal(err)
	}
	return n
}
