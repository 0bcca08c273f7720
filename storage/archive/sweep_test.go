package archive

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// plenty is enough memory for the objects of a test.
var plenty = bounds{edges: 1 << 16, victims: 1 << 16, checkpoints: 1 << 10}

// listed is a bucket of names.
type listed struct {
	storage.Bucket
	names   map[string]bool
	deletes []string
}

func listOf(names []string) *listed {
	b := &listed{names: make(map[string]bool)}
	for _, key := range names {
		b.names[key] = true
	}
	return b
}

// List implements storage.Bucket.
func (b *listed) List(_ context.Context, prefix string, fn func(storage.Info) bool) error {
	var keys []string
	for key := range b.names {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !fn(storage.Info{Key: key}) {
			break
		}
	}
	return nil
}

// DeleteBatch implements storage.BatchDeleter.
func (b *listed) DeleteBatch(_ context.Context, keys []string) map[string]error {
	for _, key := range keys {
		delete(b.names, key)
	}
	b.deletes = append(b.deletes, keys...)
	return nil
}

// garbage returns the names that the collector would remove, in its order, and checks that a
// small memory makes no difference.
func garbage(t *testing.T, of string, names []string, root *document.File, before time.Time, copies ...Copy) (keys []string) {
	t.Helper()
	if root != nil && root.Lineage() != of {
		header := *root.Header
		header.Lineage = of
		other := *root
		other.Header = &header
		root = &other
	}
	run := func(most int, size bounds) []string {
		b := listOf(names)
		n, err := collect(t.Context(), b, root, before, most, nil, copies, size)
		if err != nil || n != len(b.deletes) {
			t.Fatalf("%d deleted, and %q: %v", n, b.deletes, err)
		}
		slices.Sort(b.deletes)
		return b.deletes
	}
	all := run(len(names), plenty)
	want := garbageOfAll(of, names, root, before, copies...)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		t.Errorf("%q are removed, want %q", all, want)
	}
	for _, size := range []bounds{{8, 1, 1 << 10}, {5, 2, 1 << 10}, {16, 3, 1 << 10}} {
		if got := run(len(names), size); !slices.Equal(got, want) {
			t.Errorf("with %+v, %q are removed, want %q", size, got, want)
		}
	}
	for i := range all {
		for _, key := range run(i+1, plenty) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// TestCollectHoldsLittle checks that the memory of the collector and the number of listings are
// bounded, with a million objects before the window or within it.
func TestCollectHoldsLittle(t *testing.T) {
	const n = 1_000_000
	for window, lists := range map[int]int{n / 20: 8, n - n/20: 2} {
		b := newLong(n, n-window)
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		deleted, err := Collect(t.Context(), b, b.root, time.UnixMilli(b.at(n-window)), n/5, nil)
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
	b.root.Archive.Tail.After, b.root.Archive.Tail.Last = b.lsn(n), b.lsn(n)
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
