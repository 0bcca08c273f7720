package archive

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	"log/" + lineage + "/notes.txt", "log/" + lineage + "/1-1~1-2~0~A.seg.bak", "log/other/1-1~1-2~0~A.seg",
	"base/" + lineage + "/1-1~1-1~0~A/readme", "base/" + lineage + "/x/manifest.json", "inbox/a.json",
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	names := append(w.names(), strangers...)
	checkpoint := w.root.Archive.Checkpoint
	old := garbage(t, lineage, names, w.root, farAway)
	if len(old) != 5 {
		t.Fatalf("%q", old)
	}
	for i, key := range old {
		n, _ := parseName(key)
		if n.last.Compare(checkpoint.LSN) > 0 || slices.Contains(strangers, key) {
			t.Errorf("%q is garbage", key)
		}
		if i > 0 {
			if before, _ := parseName(old[i-1]); before.last.Compare(n.last) > 0 {
				t.Errorf("%q goes after %q", key, old[i-1])
			}
		}
	}
	manifest := slices.IndexFunc(old, func(key string) bool { return strings.HasSuffix(key, manifestSuffix) })
	part := slices.IndexFunc(old, func(key string) bool { return strings.HasSuffix(key, partSuffix) })
	if manifest < 0 || part < manifest {
		t.Errorf("parts before their manifest: %q", old)
	}
	if got := garbage(t, lineage, names, w.root, time.UnixMilli(checkpoint.At)); !slices.Equal(got, old) {
		t.Errorf("with a checkpoint exactly as old as the window: %q", got)
	}
}

func TestNoGarbage(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	names := w.names()
	without := func(key string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(k string) bool { return k == key })
	}
	a := w.root.Archive
	for what, got := range map[string][]string{
		"within the window":         garbage(t, lineage, names, w.root, time.UnixMilli(a.Checkpoint.At-1)),
		"another lineage":           garbage(t, "other", names, w.root, farAway),
		"no document":               garbage(t, lineage, names, nil, farAway),
		"without its checkpoint":    garbage(t, lineage, without(a.Checkpoint.Key), w.root, farAway),
		"without its segment":       garbage(t, lineage, without(a.Log[1].Key), w.root, farAway),
		"without its segment index": garbage(t, lineage, without(a.Log[0].Key), w.root, farAway),
	} {
		if len(got) > 0 {
			t.Errorf("%s: %q", what, got)
		}
	}
	inline := *w.root
	inline.Archive = nil
	if got := garbage(t, lineage, names, &inline, farAway); len(got) > 0 {
		t.Errorf("without an archive: %q", got)
	}
}

// TestCopiesKeepTheirObjects checks that the state of a copy of a large document is readable
// after everything before the window was collected, and that its objects are collected when the
// copy no longer exists.
func TestCopiesKeepTheirObjects(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	data, err := w.bucket.Get(w.ctx, rootKey)
	must(err)
	at := w.root.Archive.LSN()
	const kept = CopyPrefix + "1-1-a.json"
	must(Put(w.ctx, w.bucket, kept, data.Data))
	must(Put(w.ctx, w.bucket, CopyPrefix+"1-1-b.json", []byte("no document")))
	w.record(5)
	w.cut(w.leader)
	w.record(5)
	w.checkpoint(w.leader)
	w.record(5)
	w.cut(w.leader)
	w.flush(true)

	var copies Copies
	collect := func() (deleted int) {
		t.Helper()
		needed, more, err := copies.Read(w.ctx, w.bucket)
		if err != nil || more {
			t.Fatal(more, err)
		}
		deleted, err = Collect(w.ctx, w.bucket, w.root, farAway, 100, nil, needed...)
		if err != nil {
			t.Fatal(err)
		}
		return deleted
	}
	if n := collect(); n == 0 {
		t.Error("what no copy needs is kept")
	}
	h, err := Open(w.ctx, w.bucket, kept)
	must(err)
	if m, err := h.At(w.ctx, Target{}); err != nil || m.Meta().LSN != at {
		t.Errorf("the state of the copy: %v", err)
	}
	must(w.bucket.Delete(w.ctx, kept))
	if n := collect(); n < 5 {
		t.Errorf("%d objects collected after the copy has gone", n)
	}
	report, err := Verify(w.ctx, w.bucket, rootKey, VerifyOptions{})
	if err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestCollectEndsAnywhere checks that the remaining objects are complete wherever a collection
// ends.
func TestCollectEndsAnywhere(t *testing.T) {
	t.Parallel()
	whole := fixedWorld(t.Context(), true)
	for most := range 6 {
		w := whole.copied(t.Context())
		n, err := Collect(w.ctx, w.bucket, w.root, farAway, most, nil)
		if err != nil || n != most {
			t.Errorf("%d deleted of %d: %v", n, most, err)
		}
		report, err := Verify(w.ctx, w.bucket, rootKey, VerifyOptions{})
		if err != nil || !report.OK() || len(report.Gone) > 0 {
			t.Errorf("after %d: %+v, %v", most, report, err)
		}
		n, err = Collect(w.ctx, w.bucket, w.root, farAway, 100, nil)
		if err != nil || n != 5-most {
			t.Errorf("the rest of %d: %d, %v", most, n, err)
		}
	}
}

func TestCollectWithFaults(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
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

// TestLateManifest checks that a manifest that arrives while its parts are collected is neither
// reported as damage nor offered as a state.
func TestLateManifest(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	var manifest string
	var o storage.Object
	for _, key := range w.names() {
		if n, ok := parseName(key); ok && n.kind == manifestKind && key != w.root.Archive.Checkpoint.Key {
			manifest = key
			var err error
			o, err = w.bucket.Get(w.ctx, key)
			must(err)
		}
	}
	_, err := Collect(w.ctx, w.bucket, w.root, farAway, 2, nil) // the manifest and its part
	must(err)
	must(Put(w.ctx, w.bucket, manifest, o.Data))
	report, err := Verify(w.ctx, w.bucket, rootKey, VerifyOptions{})
	if err != nil || !report.OK() || !slices.Equal(report.Gone, []string{manifest}) || len(report.Spans) != 1 || report.Spans[0].From != w.root.Archive.Checkpoint.LSN {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err = Verify(w.ctx, w.bucket, rootKey, VerifyOptions{Since: time.UnixMilli(w.root.Archive.Checkpoint.At)}); err != nil || len(report.Gone) > 0 || report.Checkpoints != 1 {
		t.Errorf("since the checkpoint: %+v, %v", report, err)
	}
	h, err := Open(w.ctx, w.bucket, rootKey)
	must(err)
	n, _ := parseName(manifest)
	if _, err := h.At(w.ctx, Target{LSN: n.last}); !errors.Is(err, ErrNotKept) || errors.Is(err, ErrDamaged) {
		t.Errorf("the state of the late manifest: %v", err)
	}
	if n, err := Collect(w.ctx, w.bucket, w.root, farAway, 100, nil); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// meddled is a bucket that calls a function before it is listed.
type meddled struct {
	storage.Bucket
	meddle func()
}

// List implements storage.Bucket.
func (m *meddled) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	if m.meddle != nil {
		m.meddle()
		m.meddle = nil
	}
	return m.Bucket.List(ctx, prefix, fn)
}

// TestCollectDuringARepair checks that a leader that was frozen, while a repair put its
// document back to an earlier state, does not delete that state's checkpoint.
func TestCollectDuringARepair(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	checkpoint := w.root.Archive.Checkpoint
	var before string // the segment that leads to the checkpoint
	for _, key := range w.names() {
		n, ok := parseName(key)
		if ok && n.kind == segmentKind && n.last == checkpoint.LSN {
			before = key
		}
	}
	w.damage(before, damages["flipped"])
	w.damage(strings.TrimSuffix(checkpoint.Key, manifestSuffix)+"/000000.part", damages["flipped"])

	var repaired *Repaired
	bucket := &meddled{w.bucket, func() {
		var err error
		repaired, err = Repair(w.ctx, w.bucket, rootKey, RepairOptions{Force: true})
		must(err)
	}}
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
	report, err := Verify(w.ctx, w.bucket, rootKey, VerifyOptions{})
	if err != nil || !report.Sound() {
		t.Errorf("%+v, %v", report, err)
	}
}

// hourly returns the names of a line with a checkpoint every ten minutes and a segment between
// two: checkpoints[i] has the LSN 1-(i+1) at i·10 min, and logs[i] leads from it to the next.
func hourly(n int) (checkpoints, logs []string, root *document.File) {
	const every = int64(10 * time.Minute / time.Millisecond)
	lsn := func(i int) fsm.LSN { return fsm.LSN{Term: 1, Index: uint64(i + 1)} }
	for i := range n {
		checkpoints = append(checkpoints, newName(manifestKind, lineage, lsn(i), lsn(i), int64(i)*every).key())
		logs = append(logs, newName(segmentKind, lineage, lsn(i), lsn(i+1), int64(i+1)*every).key())
	}
	root = &document.File{Header: &document.Header{Lineage: lineage}}
	root.Header.Now, root.Header.Term, root.Header.Index = int64(n-1)*every, lsn(n-1).Term, lsn(n-1).Index
	last := document.Checkpoint{Key: checkpoints[n-1], LSN: lsn(n - 1), Prev: lsn(n - 1), At: root.Now()}
	root.Archive = &document.Archive{Checkpoint: last}
	root.Archive.Tail.After, root.Archive.Tail.Last = last.LSN, last.LSN
	return checkpoints, logs[:n-1], root
}

// TestCheckpointsAreThinned checks that of the checkpoints older than an hour one per hour is kept,
// as long as the log leads on from it.
func TestCheckpointsAreThinned(t *testing.T) {
	t.Parallel()
	checkpoints, logs, root := hourly(31) // 5 h
	left := func(names []string) (left []int) {
		gone := garbage(t, lineage, names, root, time.UnixMilli(0))
		for i, key := range checkpoints {
			if !slices.Contains(gone, key) {
				left = append(left, i)
			}
		}
		if len(left)+len(gone) != len(checkpoints) {
			t.Errorf("something else is garbage: %q", gone)
		}
		return left
	}
	names := slices.Concat(checkpoints, logs)
	if got, want := left(names), []int{0, 6, 12, 18, 24, 25, 26, 27, 28, 29, 30}; !slices.Equal(got, want) {
		t.Errorf("the checkpoints %v are kept, want %v", got, want)
	}
	// A newer document may name a checkpoint after this one's.
	newest := *root.Archive
	root.Archive.Checkpoint.Key, root.Archive.Checkpoint.LSN = checkpoints[8], fsm.LSN{Term: 1, Index: 9}
	if got := left(names); !slices.Equal(got, append([]int{0, 6}, fromTo(8, 30)...)) {
		t.Errorf("with a root at 8, the checkpoints %v are kept", got)
	}
	*root.Archive = newest
	// A hole in the log, which the checkpoint after it bridges.
	checkpoints[10] = newName(manifestKind, lineage, fsm.LSN{Term: 1, Index: 10}, fsm.LSN{Term: 1, Index: 11}, 10*600_000).key()
	hole := slices.Concat(checkpoints, logs[:9], logs[10:])
	if got := left(hole); !slices.Equal(got, append([]int{0, 6}, fromTo(10, 30)...)) {
		t.Errorf("with a hole in the log, the checkpoints %v are kept", got)
	}
}

func fromTo(from, to int) (all []int) {
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// TestCollectKeepsUp checks that one call removes all garbage, however much it is, and asks
// repeatedly whether it may continue.
func TestCollectKeepsUp(t *testing.T) {
	t.Parallel()
	const n = 3500
	ctx := testContext(t)
	checkpoints, logs, root := hourly(n)
	b := mem.New()
	for _, key := range slices.Concat(checkpoints, logs) {
		must(Put(ctx, b, key, []byte("x")))
	}
	asked := 0
	deleted, err := Collect(ctx, b, root, time.UnixMilli(root.Now()), 1_000_000, func(context.Context) (bool, error) {
		asked++
		return asked < 6, nil
	})
	if err != nil || deleted != 5*stillEvery || asked != 6 {
		t.Errorf("%d deleted, asked %d times, %v", deleted, asked, err)
	}
	deleted, err = Collect(ctx, b, root, time.UnixMilli(root.Now()), 1_000_000, nil)
	if want := 2*(n-1) - 5*stillEvery; err != nil || deleted != want {
		t.Errorf("%d deleted, want %d, %v", deleted, want, err)
	}
}
