package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// work applies n entries, always the same.
func (r *recorder) work(n int) {
	for range n {
		r.now += 10
		r.ids++
		id := fmt.Sprint("j", r.ids)
		muts := []*fsmpb.Mutation{enqueue(&fsmpb.NewJob{Id: id, Type: "a", Payload: fmt.Appendf(nil, `{"number":%d}`, r.ids)})}
		if r.ids%3 == 0 {
			muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 1, LeaseMs: 1000}}})
		}
		r.apply(muts...)
	}
}

// record lets the leader work, and records it.
func (w *world) record(n int) {
	l := w.leader
	first := len(l.r.entries)
	l.r.work(n)
	must(l.tail.Append(l.r.entries[first:]...))
	for _, e := range l.r.entries[first:] {
		l.written = append(l.written, place{e.LSN, e.At})
	}
}

// fixedWorld has one object of each kind: a checkpoint that the root does not name and segments
// after it, the root's checkpoint, and after that a segment index, a segment and a tail.
func fixedWorld(ctx context.Context, large bool) *world {
	w := newWorld(ctx, 1_700_000_000_000)
	w.checkpoint(w.leader)
	for range 2 {
		w.record(5)
		w.cut(w.leader)
	}
	w.record(5)
	w.checkpoint(w.leader)
	for range 3 {
		w.record(4)
		w.cut(w.leader)
	}
	w.compact(w.leader)
	w.record(6)
	w.flush(large)
	return w
}

// copied returns another bucket with the same objects.
func (w *world) copied(ctx context.Context) *world {
	c := *w
	c.ctx, c.bucket = ctx, mem.New()
	for _, key := range w.names() {
		o, err := w.bucket.Get(w.ctx, key)
		must(err)
		must(Put(w.ctx, c.bucket, key, o.Data))
	}
	return &c
}

// damages are the kinds of damage to an object. The result nil removes the object.
var damages = map[string]func(data []byte) []byte{
	"removed": func([]byte) []byte { return nil },
	"cut":     func(data []byte) []byte { return data[:len(data)/2] },
	"flipped": func(data []byte) []byte {
		data = bytes.Clone(data)
		data[len(data)*4/5] ^= 4
		return data
	},
	"longer": func(data []byte) []byte { return append(bytes.Clone(data), 'x') },
}

func (w *world) damage(key string, how func([]byte) []byte) {
	o, err := w.bucket.Get(w.ctx, key)
	must(err)
	must(w.bucket.Delete(w.ctx, key))
	if data := how(o.Data); data != nil {
		must(Put(w.ctx, w.bucket, key, data))
	}
}

// about returns the object that a report would name for damage to another one.
func about(key string) string {
	if n, ok := parseName(key); ok && n.kind == partKind {
		return n.directory() + manifestSuffix
	}
	return key
}

// TestDamage does everything to each object.
func TestDamage(t *testing.T) {
	t.Parallel()
	whole := fixedWorld(t.Context(), true)
	needed := neededBy(whole)
	if len(whole.names()) != 12 || len(needed) != 6 {
		t.Fatalf("%q, of which %q are needed", whole.names(), needed)
	}
	for _, key := range whole.names() {
		for what, how := range damages {
			t.Run(what+" "+key, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { // there are pauses before an object is read again
					w := whole.copied(t.Context())
					w.damage(key, how)
					if key == rootKey {
						w.checkDamagedRoot(t)
						return
					}
					w.checkDamage(t, key, what == "removed", slices.Contains(needed, key))
				})
			})
		}
	}
}

// neededBy returns the keys without which the root's state cannot be recovered.
func neededBy(w *world) []string {
	var needed []string
	for _, key := range w.names() {
		n, ok := parseName(key)
		checkpoint := w.root.Archive.Checkpoint.LSN
		if ok && (n.last.Compare(checkpoint) > 0 || n.last == checkpoint && (n.kind == manifestKind || n.kind == partKind)) {
			needed = append(needed, key)
		}
	}
	return needed
}

func (w *world) checkDamage(t *testing.T, key string, removed, needed bool) {
	t.Helper()
	report, err := Verify(w.ctx, w.bucket, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	named := slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Key == about(key) })
	gone := slices.Contains(report.Gone, about(key))
	n, _ := parseName(key)
	switch {
	case needed || !removed:
		if !named {
			t.Errorf("it is not among the problems %v", report.Problems)
		}
	case !report.OK():
		t.Errorf("what nothing names any more is missed: %v", report.Problems)
	case gone != (n.kind == partKind): // the others are not listed
		t.Errorf("these are gone: %v", report.Gone)
	}
	m, err := Machine(w.ctx, w.bucket, w.root)
	switch {
	case needed && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), key)):
		t.Errorf("the root's state: %v", err)
	case !needed && (err != nil || m.View().Hash() != w.chain[w.root.LSN()]):
		t.Errorf("the root's state does not need it: %v", err)
	}
	w.checkPlaces(t)
}

// checkPlaces: a state is either the right one or an error.
func (w *world) checkPlaces(t *testing.T) {
	t.Helper()
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	failed, looked := 0, 0
	for i := len(w.recorded) - 1; i >= 0; i -= 3 {
		p := w.recorded[i]
		looked++
		m, err := h.At(w.ctx, Target{LSN: p.lsn})
		switch {
		case err == nil && (m.LSN() != p.lsn || m.View().Hash() != w.chain[p.lsn]):
			t.Errorf("at %s is %s, or another state", p.lsn, m.LSN())
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotKept):
			t.Errorf("at %s: %v", p.lsn, err)
		case err != nil:
			failed++
		}
	}
	if failed > looked*2/3 {
		t.Errorf("%d of %d places are lost", failed, looked)
	}
}

// checkDamagedRoot checks that Verify reports a damaged document. No checksum covers a whole
// document, but a changed state is not the one that the log leads to.
func (w *world) checkDamagedRoot(t *testing.T) {
	t.Helper()
	report, err := Verify(w.ctx, w.bucket, rootKey)
	if errors.Is(err, storage.ErrNotFound) {
		return // it was removed
	}
	if err != nil || report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestEveryByteOfTheRoot flips each byte of a document: nothing of it may
// lead to another state.
func TestEveryByteOfTheRoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testEveryByteOfTheRoot)
}

func testEveryByteOfTheRoot(t *testing.T) {
	w := fixedWorld(t.Context(), true)
	o, err := w.bucket.Get(w.ctx, rootKey)
	must(err)
	refused := 0
	for i := range o.Data {
		bad := bytes.Clone(o.Data)
		bad[i] ^= 1
		doc, err := document.Decode(bad)
		if err != nil || doc.Archive == nil {
			refused++
			continue
		}
		m, err := Machine(w.ctx, w.bucket, doc)
		if err != nil {
			refused++
			continue
		}
		if lsn := m.LSN(); m.View().Hash() != w.chain[lsn] || lsn != w.root.LSN() {
			t.Fatalf("with %q in place of %q at %d it is another state, of %s", bad[i], o.Data[i], i, lsn)
		}
	}
	if refused < len(o.Data)/3 {
		t.Errorf("only %d of %d changes are noticed", refused, len(o.Data))
	}
}
