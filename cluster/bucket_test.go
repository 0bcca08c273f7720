package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// objects returns everything in the bucket, except the marker.
func (l *lab) objects() map[string][]byte {
	l.t.Helper()
	all := make(map[string][]byte)
	var keys []string
	if err := l.bucket.List(l.t.Context(), "", func(i storage.Info) bool { keys = append(keys, i.Key); return true }); err != nil {
		l.t.Fatal(err)
	}
	for _, key := range keys {
		o, err := l.bucket.Get(l.t.Context(), key)
		if err == nil && key != storage.MarkerKey {
			all[key] = o.Data
		}
	}
	return all
}

// empty deletes everything in the bucket.
func (l *lab) empty() {
	l.t.Helper()
	for key := range l.objects() {
		if err := l.bucket.Delete(l.t.Context(), key); err != nil {
			l.t.Fatal(err)
		}
	}
}

// putBack replaces the content of the bucket.
func (l *lab) putBack(objects map[string][]byte) {
	l.t.Helper()
	l.empty()
	for key, data := range objects {
		l.eventually("the object to be stored", func() bool {
			o, err := l.bucket.Get(l.t.Context(), key)
			if errors.Is(err, storage.ErrNotFound) {
				return l.bucket.PutIfAbsent(l.t.Context(), key, data).Outcome == storage.Committed
			}
			return err == nil && l.bucket.PutIfMatch(l.t.Context(), key, data, o.Version).Outcome == storage.Committed
		})
	}
}

// archived makes a node keep its state in an archive with short segments.
func archived(c *Config) {
	c.Flush.ViewMax, c.Flush.TailMax, c.Flush.TailMin, c.Flush.CheckpointMin = 1, 64, 16, 0
}

// A leader that finds its document removed, or an older copy of the bucket put back, confirms no
// write before the state can be restored from the bucket.
func TestNoWriteIsConfirmedAfterTheBucketWasEmptied(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"emptied", "older copy"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			faults := fault.New(l.bucket, 1)
			n := l.leader(l.start("n", 1, func(c *Config) {
				archived(c)
				c.Bucket, c.ArchiveCheck = faults, time.Hour
			})...)
			l.flushed(n, l.enqueue(n, "first"))
			old := l.objects()
			for _, id := range []string{"a", "b", "c"} {
				l.flushed(n, l.enqueue(n, id))
			}
			time.Sleep(1500 * time.Millisecond) // the check of a new term is over
			stalled := faults.Inject(fault.Rule{Kind: fault.Stall, KeyPrefix: "checkpoint/", Ops: []storage.Op{storage.OpPutIfAbsent}})
			if how == "emptied" {
				l.empty()
			} else {
				l.putBack(old)
			}
			lsn := l.enqueue(n, "d")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := n.WaitFlushed(ctx, lsn); err == nil {
				if _, err := archive.Machine(t.Context(), l.bucket, l.document()); err != nil {
					t.Errorf("a write was confirmed that cannot be restored: %v", err)
				}
			} else if !errors.Is(err, ErrArchive) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the wait ended with %v", err)
			}
			stalled.Stop()
			stalled.Release(t.Context())
			l.eventually("the new checkpoint", func() bool {
				return n.Status().ArchiveError == "" && n.WaitFlushed(ctx, lsn) == nil || ctx.Err() != nil
			})
			l.flushed(n, l.enqueue(n, "e"))
			m, err := archive.Machine(t.Context(), l.bucket, l.document())
			if err != nil || m.Counts().Of(fsm.Unclaimed) != 6 {
				t.Fatalf("the state in the bucket: %v", err)
			}
		})
	}
}

// notes keeps what a node logs.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) have(part string) bool {
	return strings.Contains(n.all(), part)
}

func (n *notes) all() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (n *notes) log(c *Config) {
	c.Logger = hclog.New(&hclog.LoggerOptions{Name: c.Name, Level: hclog.Info, Output: n})
}

// After the loss of all disks a document that is older than the archive beside it is adopted with a
// warning. The newer states can be rebuilt. The scenes doubtful_document have the other cases.
func TestDoubtfulDocumentsAreAdoptedWithAWarning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, archived)...)
	l.flushed(n, l.enqueue(n, "a"))
	old := l.stored()
	for _, id := range []string{"b", "c", "d"} {
		l.flushed(n, l.enqueue(n, id))
	}
	n.stop()
	newest, err := archive.Newest(t.Context(), l.bucket, l.document().Lineage())
	if err != nil || newest.Compare(l.document().Header.LSN()) > 0 || newest.IsZero() {
		t.Fatal(newest, err)
	}
	l.put(old)
	var said notes
	n = l.leader(l.start("e", 1, func(c *Config) { archived(c); said.log(c) })...)
	if n.Job("a") == nil || n.Job("d") != nil || !said.have("osqueue restore") || !said.have("LSN="+newest.String()) {
		t.Errorf("the log: %s", said.all())
	}
	l.flushed(n, l.enqueue(n, "later"))
	h, err := archive.Open(t.Context(), l.bucket, DocumentKey)
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.At(t.Context(), archive.Target{LSN: newest})
	if err != nil || m.LSN() != newest || m.Counts().Of(fsm.Unclaimed) < 3 {
		t.Errorf("the newest state: %v", err)
	}
}
