package archive

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

var farAway = time.UnixMilli(1 << 50)

// strangers are keys that the collector must not delete, although they look similar.
var strangers = []string{
	"log/" + lineage + "/notes.txt", "log/" + lineage + "/00000000000000000001-00000000000000000002~1-1~0~A.seg.bak", "log/other/00000000000000000001-00000000000000000002~1-1~0~A.seg",
	"checkpoint/" + lineage + "/00000000000000000001-00000000000000000001~1-1~0~A/readme", "checkpoint/" + lineage + "/x/manifest.json", "inbox/a.json",
}

// pastWorld is fixedWorld when its window has passed the root's checkpoint.
func pastWorld(t *testing.T) *world {
	w := fixedWorld(t.Context(), true)
	w.age()
	return w
}

// age lets time pass, until the root keeps no earlier checkpoint.
func (w *world) age() {
	w.root.Archive.Kept = Prune(w.root.Archive.Kept, &w.root.Archive.Checkpoint, farAway.UnixMilli())
}

// deletions is a bucket that records what is deleted, in order.
type deletions struct {
	storage.Bucket
	keys []string
}

// DeleteBatch implements storage.BatchDeleter.
func (b *deletions) DeleteBatch(ctx context.Context, keys []string) map[string]error {
	b.keys = append(b.keys, keys...)
	return storage.DeleteEach(ctx, b.Bucket, keys)
}

// garbage returns the keys that Collect deletes for a root.
func (w *world) garbage(t *testing.T, root *document.File) []string {
	t.Helper()
	b := &deletions{Bucket: w.bucket}
	if n, err := Collect(w.ctx, b, root, farAway, 100, nil); err != nil || n != len(b.keys) {
		t.Fatalf("%d deleted, and %q: %v", n, b.keys, err)
	}
	return b.keys
}

// TestNoGarbage collects by documents that say nothing of the archive. The scene no_garbage has the others.
func TestNoGarbage(t *testing.T) {
	t.Parallel()
	w := pastWorld(t)
	other, inline := *w.root, *w.root
	other.Header = &document.Header{Lineage: "another"}
	inline.Archive = nil
	for what, got := range map[string][]string{
		"another lineage":    w.garbage(t, &other),
		"no document":        w.garbage(t, nil),
		"without an archive": w.garbage(t, &inline),
	} {
		if len(got) > 0 {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestCollectWithFaults(t *testing.T) {
	t.Parallel()
	w := pastWorld(t)
	bucket := fault.New(w.bucket, 1)
	rule := bucket.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpDelete}, Skip: 2, Times: 1})
	n, err := Collect(w.ctx, bucket, w.root, farAway, 100, nil)
	// The manifest and its part, and those of the other objects, deleted in parallel, that were
	// faster.
	if n < 2 || n > 4 || !errors.Is(err, fault.ErrInjected) || rule.Hits() != 1 {
		t.Errorf("%d, %v", n, err)
	}
	first := n
	rule = bucket.Inject(fault.Rule{Kind: fault.Throttle, Ops: []storage.Op{storage.OpList}, Times: 1})
	n, err = Collect(w.ctx, bucket, w.root, farAway, 100, nil)
	if n != 0 || !errors.Is(err, storage.ErrThrottled) || rule.Hits() != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err = Collect(w.ctx, bucket, w.root, farAway, 100, nil); n != 5-first || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestCollectDuringARepair checks that a leader that was frozen, while a repair put its
// document back to an earlier state, does not delete that state's checkpoint.
func TestCollectDuringARepair(t *testing.T) {
	t.Parallel()
	w := pastWorld(t)
	checkpoint := w.root.Archive.Checkpoint
	var before string // the segment that leads to the checkpoint
	for _, key := range w.names() {
		n, ok := parseName(key)
		if ok && n.kind == segmentKind && n.last == checkpoint.LSN {
			before = key
		}
	}
	w.damage(before, damages["flipped"])
	w.damage(strings.TrimSuffix(checkpoint.Key, manifestSuffix)+"/part-000000", damages["flipped"])

	var repaired *Repaired
	repair := sync.OnceFunc(func() { // before the first listing
		var err error
		repaired, err = Repair(w.ctx, w.bucket, rootKey, RepairOptions{Force: true})
		must(err)
	})
	bucket := storage.Decorate(w.bucket, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if c.Op == storage.OpList {
			repair()
		}
		return next(ctx)
	})
	n, err := Collect(w.ctx, bucket, w.root, farAway, 100, func(ctx context.Context) (bool, error) {
		o, err := w.bucket.Get(ctx, rootKey)
		must(err)
		doc, err := document.Decode(o.Data)
		must(err)
		return doc.Header.Epoch == w.root.Header.Epoch, nil
	})
	if n != 0 || err != nil || !repaired.Written || repaired.To.Compare(checkpoint.LSN) >= 0 {
		t.Errorf("%d deleted, %v, after a repair to %s; the checkpoint was of %s", n, err, repaired.To, checkpoint.LSN)
	}
	report, err := Verify(w.ctx, w.bucket, rootKey)
	if err != nil || !report.Sound() {
		t.Errorf("%+v, %v", report, err)
	}
}

// hourly is a chain with a checkpoint every ten minutes and a segment between two: checkpoints[i]
// has the LSN 1-(i+1) at i·10 min, and logs[i] leads from it to the next.
type hourly struct {
	checkpoints []document.Checkpoint
	logs        []string
}

func newHourly(n int) (h hourly) {
	const every = int64(10 * time.Minute / time.Millisecond)
	lsn := func(i int) fsm.LSN { return fsm.LSN{Term: 1, Index: uint64(i + 1)} }
	for i := range n {
		c := document.Checkpoint{LSN: lsn(i), Prev: lsn(i), At: int64(i) * every}
		c.Key = newName(manifestKind, lineage, c.Prev, c.LSN, c.At).key()
		h.checkpoints = append(h.checkpoints, c)
		h.logs = append(h.logs, newName(segmentKind, lineage, lsn(i), lsn(i+1), c.At+every).key())
	}
	h.logs = h.logs[:n-1]
	return h
}

// root returns a document with a checkpoint, whose state is that of the last one.
func (h *hourly) root(at int) *document.File {
	a := &document.Archive{Checkpoint: h.checkpoints[0]}
	for i := 1; i <= at; i++ {
		a = &document.Archive{Checkpoint: h.checkpoints[i], Kept: Keep(a, &h.checkpoints[i], 24*time.Hour)}
	}
	a.Tail = NewTail(a.Checkpoint.LSN).Frame()
	must(a.Check())
	last := h.checkpoints[len(h.checkpoints)-1]
	return &document.File{
		Header:  &document.Header{Lineage: lineage, Now: last.At, Term: last.LSN.Term, Index: last.LSN.Index},
		Archive: a,
	}
}

func (h *hourly) bucket(ctx context.Context) *mem.Bucket {
	b := mem.New()
	for _, c := range h.checkpoints {
		must(Put(ctx, b, c.Key, []byte("x")))
	}
	for _, key := range h.logs {
		must(Put(ctx, b, key, []byte("x")))
	}
	return b
}

// TestCheckpointsAreThinned checks that of the checkpoints older than an hour one per hour is kept,
// as long as the log leads on from it.
func TestCheckpointsAreThinned(t *testing.T) {
	t.Parallel()
	left := func(h hourly, at int) (left []int) {
		b := h.bucket(t.Context())
		must(newCollector(b, h.root(at), time.UnixMilli(0), 100).deleteGarbage(t.Context()))
		names, err := List(t.Context(), b, lineage)
		must(err)
		for i, c := range h.checkpoints {
			if slices.Contains(names, c.Key) {
				left = append(left, i)
			}
		}
		if len(names) != len(left)+len(h.logs) {
			t.Errorf("something else is garbage: %q is left", names)
		}
		return left
	}
	h := newHourly(31) // 5 h
	if got, want := left(h, 30), []int{0, 6, 12, 18, 24, 25, 26, 27, 28, 29, 30}; !slices.Equal(got, want) {
		t.Errorf("the checkpoints %v are kept, want %v", got, want)
	}
	// A newer document may name a checkpoint after this one's.
	if got := left(h, 8); !slices.Equal(got, append([]int{0, 6}, fromTo(8, 30)...)) {
		t.Errorf("with a root at 8, the checkpoints %v are kept", got)
	}
	// The checkpoint behind a hole in the log, and others that may be in the hole, are kept.
	c := &h.checkpoints[10]
	c.Prev = h.checkpoints[8].LSN
	c.Key = newName(manifestKind, lineage, c.Prev, c.LSN, c.At).key()
	if got, want := left(h, 30), append([]int{0, 6, 9, 10, 16, 22}, fromTo(25, 30)...); !slices.Equal(got, want) {
		t.Errorf("with a hole in the log, the checkpoints %v are kept, want %v", got, want)
	}
}

func fromTo(from, to int) (all []int) {
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// TestKeep checks that the list of kept checkpoints is short, and begins where the window does.
func TestKeep(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Minute
	for window, most := range map[time.Duration]int{0: 1, time.Minute: 1, time.Hour: 7, 24 * time.Hour: 25, 1000 * time.Hour: 101} {
		a := &document.Archive{}
		for i := range 10_000 {
			next := document.Checkpoint{LSN: fsm.LSN{Term: 1, Index: uint64(i + 1)}, At: int64(i+1) * every.Milliseconds()}
			next.Prev = next.LSN
			start := next.At - window.Milliseconds()
			a = &document.Archive{Checkpoint: next, Kept: Prune(Keep(a, &next, window), &next, start)}
			k := append(slices.Clone(a.Kept), document.Kept{At: next.At})
			if len(a.Kept) > most || k[0].At > max(start, 0) || len(k) > 1 && k[1].At <= start {
				t.Fatalf("with a window of %v, at %d ms: %+v", window, next.At, k)
			}
		}
		if len(a.Kept) < most-1 {
			t.Errorf("with a window of %v, only %d are kept", window, len(a.Kept))
		}
	}
}

// TestCollectKeepsUp checks that one call removes all garbage, however much it is, and asks
// repeatedly whether it may continue.
func TestCollectKeepsUp(t *testing.T) {
	t.Parallel()
	const n = 3500
	ctx := testContext(t)
	h := newHourly(n)
	b, root := h.bucket(ctx), h.root(n-1)
	root.Archive.Kept = nil
	c := newCollector(b, root, time.UnixMilli(root.Now()), 1_000_000)
	asked := 0
	c.still = func(context.Context) (bool, error) {
		asked++
		return asked < 6, nil
	}
	err := c.deleteGarbage(ctx)
	if done := 1_000_000 - c.left; !errors.Is(err, errNoLonger) || done != 4*stillEvery+n%stillEvery-1 || asked != 6 {
		t.Errorf("%d deleted, asked %d times, %v", done, asked, err)
	}
	c.still = nil
	if err := c.deleteGarbage(ctx); err != nil || 1_000_000-c.left != 2*(n-1) {
		t.Errorf("%d deleted, want %d, %v", 1_000_000-c.left, 2*(n-1), err)
	}
}

// TestCollectHoldsLittle checks that the memory of the collector and the number of listings are
// bounded, with a million objects before the window or within it.
func TestCollectHoldsLittle(t *testing.T) {
	const n = 1_000_000
	for window, lists := range map[int]int{n / 20: 1 + (n/5+63_999)/64_000, n - n/20: 2} {
		b := newLong(n, n-window)
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := newCollector(b, b.root, time.UnixMilli(b.at(n-window)), n/5)
		err := c.deleteGarbage(t.Context())
		deleted := n/5 - c.left
		if want := min(n/5, n-window); err != nil || deleted != want {
			t.Errorf("with %d objects in the window, %d were removed, want %d: %v", window, deleted, want, err)
		}
		held := int64(b.peak-before.HeapAlloc) >> 20
		t.Logf("%d MiB held, %d listings", held, b.lists)
		if held > 90 || b.lists != lists {
			t.Errorf("with %d objects in the window, %d MiB are held and %d listings are made, want %d", window, held, b.lists, lists)
		}
		if b.first <= n/5-1 && b.first < n-window {
			t.Errorf("the oldest object that is left is %d", b.first)
		}
		runtime.KeepAlive(b)
	}
}

// long is a bucket of a long log, whose names it generates while it lists them. Segments up to
// first are removed.
type long struct {
	storage.Bucket
	root                 *document.File
	n, checkpoint, first int
	lists                int
	peak                 uint64
}

func newLong(n, checkpoint int) *long {
	b := &long{n: n, checkpoint: checkpoint}
	b.root = &document.File{Header: &document.Header{Lineage: lineage}}
	b.root.Header.Now, b.root.Header.Term, b.root.Header.Index = b.at(n), b.lsn(n).Term, b.lsn(n).Index
	b.root.Archive = &document.Archive{Checkpoint: document.Checkpoint{Key: b.manifest(n), LSN: b.lsn(n), Prev: b.lsn(n), At: b.at(n)}}
	b.root.Archive.Kept = []document.Kept{{LSN: b.lsn(checkpoint), Prev: b.lsn(checkpoint), At: b.at(checkpoint)}}
	return b
}

func (b *long) lsn(i int) fsm.LSN { return fsm.LSN{Term: 3, Index: uint64(i + 1)} }

func (b *long) at(i int) int64 { return int64(i) * 100 }

func (b *long) manifest(i int) string {
	return name{kind: manifestKind, lineage: lineage, after: b.lsn(i), last: b.lsn(i), at: b.at(i), id: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}.key()
}

// List implements storage.Bucket.
func (b *long) List(_ context.Context, prefix string, fn func(storage.Info) bool) error {
	b.lists++
	if strings.HasPrefix(prefix, checkpointPrefix) {
		return b.each(fn, b.manifest(b.checkpoint), b.manifest(b.n))
	}
	for i := b.first; i < b.n; i++ {
		if (i-b.first)%(b.n/8) == b.n/8-1 {
			b.measure()
		}
		n := name{
			kind: segmentKind, lineage: lineage, after: b.lsn(i), last: b.lsn(i + 1), at: b.at(i + 1), id: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		}
		if !fn(storage.Info{Key: n.key()}) {
			break
		}
	}
	b.measure()
	return nil
}

func (b *long) each(fn func(storage.Info) bool, keys ...string) error {
	for _, key := range keys {
		if !fn(storage.Info{Key: key}) {
			break
		}
	}
	return nil
}

func (b *long) measure() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.peak = max(b.peak, m.HeapAlloc)
}

// DeleteBatch implements storage.BatchDeleter. It takes the oldest segments only.
func (b *long) DeleteBatch(_ context.Context, keys []string) map[string]error {
	failed := make(map[string]error)
	for _, key := range keys {
		n, _ := parseName(key)
		if int(n.after.Index) != b.first+1 || n.kind != segmentKind || b.first >= b.checkpoint {
			failed[key] = fmt.Errorf("%q is removed before the segment after %s", key, b.lsn(b.first))
			return failed
		}
		b.first++
	}
	return failed
}
