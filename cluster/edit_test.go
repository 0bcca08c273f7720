package cluster

import (
	"context"
	"strings"
	"sync"
	"testing"

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

func (l *lab) copies() (n int) {
	l.t.Helper()
	if err := l.bucket.List(l.t.Context(), "conflicts/", func(storage.Info) bool { n++; return true }); err != nil {
		l.t.Fatal(err)
	}
	return n
}
