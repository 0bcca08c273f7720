package archive

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestHole checks that states in a hole of the log cannot be restored, and that this is
// reported.
func TestHole(t *testing.T) {
	t.Parallel()
	w := newWorld(t.Context(), 1_700_000_000_000)
	w.checkpoint(w.leader)
	w.record(4) // 1-2 to 1-5, 10 ms each
	w.cut(w.leader)
	w.leader.r.work(3)     // 1-6 to 1-8
	w.checkpoint(w.leader) // at 1-8
	w.record(2)
	w.flush(true)
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	at := func(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms) }
	lsn := func(index uint64) fsm.LSN { return fsm.LSN{Term: 1, Index: index} }
	want := []Span{{lsn(1), lsn(5), at(0), at(40)}, {lsn(8), lsn(10), at(70), at(90)}}
	if !slices.Equal(h.Spans(), want) {
		t.Errorf("%v", h.Spans())
	}
	for _, c := range []struct {
		name string
		to   Target
		want uint64 // index; 0: not kept
	}{
		{"newest", Target{}, 10},
		{"first", Target{LSN: lsn(1)}, 1},
		{"before the first", Target{LSN: fsm.LSN{Index: 1}}, 0},
		{"some", Target{LSN: lsn(3)}, 3},
		{"before the hole", Target{LSN: lsn(5)}, 5},
		{"in the hole", Target{LSN: lsn(6)}, 0},
		{"at its end", Target{LSN: lsn(8)}, 8},
		{"last", Target{LSN: lsn(10)}, 10},
		{"after the last", Target{LSN: lsn(11)}, 0},
		{"after the last, in a later term", Target{LSN: fsm.LSN{Term: 2, Index: 1}}, 0},
		{"a time before all", Target{Time: at(-1)}, 0},
		{"the first time", Target{Time: at(0)}, 1},
		{"a time between two", Target{Time: at(29)}, 3},
		{"a time in the hole", Target{Time: at(65)}, 5},
		{"a time after it", Target{Time: at(70)}, 8},
		{"a time after all", Target{Time: at(1e9)}, 10},
		{"both", Target{LSN: lsn(5), Time: at(20)}, 3},
		{"both, the other way", Target{LSN: lsn(2), Time: at(1e9)}, 2},
	} {
		m, err := h.At(w.ctx, c.to)
		switch {
		case c.want == 0 && !errors.Is(err, ErrNotKept):
			t.Errorf("%s: %v", c.name, err)
		case c.want != 0 && (err != nil || m.Meta().LSN.Index != c.want || m.View().Hash() != w.line[m.Meta().LSN]):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, to := range []Target{{}, {LSN: lsn(1)}, {LSN: lsn(5)}, {Time: at(29)}} {
		if _, err := h.Within(1).At(w.ctx, to); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v within 1 byte: %v", to, err)
		}
		if _, err := h.Within(1<<20).At(w.ctx, to); err != nil {
			t.Errorf("%v within 1 MiB: %v", to, err)
		}
	}
	report, err := Verify(w.ctx, w.bucket, rootKey)
	if err != nil || !report.OK() || !slices.Equal(report.Spans, want) {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestBetweenTerms checks that an index that was never used is between two entries.
func TestBetweenTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t.Context(), 1_700_000_000_000)
	w.checkpoint(w.leader)
	w.record(2)
	w.leader.r.newTerm()
	w.record(2) // 2-4
	w.flush(true)
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.At(w.ctx, Target{LSN: fsm.LSN{Term: 1, Index: 900}})
	if err != nil || m.Meta().LSN != (fsm.LSN{Term: 1, Index: 3}) {
		t.Errorf("%v", err)
	}
}

func TestOvertakenDocument(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), false)
	w.damage(rootKey, func(data []byte) []byte {
		return bytes.Replace(data, []byte(`"broker":"h:8080"`), []byte(`"broker":"h:9090"`), 1)
	})
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil || !h.Document().Overtaken {
		t.Fatalf("%v", err)
	}
	for _, to := range []Target{{}, {LSN: w.root.LSN()}} {
		if m, err := h.At(w.ctx, to); err != nil || m.View().Hash() != w.line[w.root.LSN()] {
			t.Errorf("%v is another state: %v", to, err)
		}
	}
	if report, err := Verify(w.ctx, w.bucket, rootKey); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestYoungQueue checks that a queue without a checkpoint has all states from its first entry on,
// also after its first checkpoint, and that nothing of it is garbage before.
func TestYoungQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), 1_700_000_000_000)
		w.young()
		w.record(5)
		check := func(checkpoints int) {
			t.Helper()
			w.flush(false)
			report, err := Verify(w.ctx, w.bucket, rootKey)
			if err != nil || !report.OK() || report.Checkpoints != checkpoints || len(report.Spans) != 1 || !report.Spans[0].From.IsZero() {
				t.Fatalf("%+v, %v", report, err)
			}
			h, err := Open(w.ctx, w.bucket, rootKey)
			must(err)
			for _, p := range w.recorded {
				if m, err := h.At(w.ctx, Target{LSN: p.lsn}); err != nil || m.View().Hash() != w.line[p.lsn] {
					t.Errorf("at %s: %v", p.lsn, err)
				}
			}
			if begin, err := h.Beginning(w.ctx); err != nil || begin.UnixMilli() != w.recorded[0].at {
				t.Errorf("it begins %v, %v", begin, err)
			}
			if n, err := Collect(w.ctx, w.bucket, w.root, time.UnixMilli(1_600_000_000_000), 100, nil); n != 0 || err != nil {
				t.Errorf("%d objects are garbage, %v", n, err)
			}
			if found, err := NewAudit(w.bucket).Missing(w.ctx, w.root.Archive); found != nil || err != nil {
				t.Errorf("%+v, %v", found, err)
			}
		}
		check(0)
		if len(w.names()) != 1 {
			t.Errorf("%q", w.names())
		}
		w.cut(w.leader)
		w.record(5)
		check(0)
		must(w.bucket.Delete(w.ctx, rootKey)) // the segment is left
		r, err := Repair(w.ctx, w.bucket, rootKey, RepairOptions{})
		if err != nil || !r.Written {
			t.Fatalf("%+v, %v", r, err)
		}
		w.checkRepaired(t, r, w.root.Archive.Tail.After)
		w.checkpoint(w.leader)
		w.record(5)
		check(2) // and that of the repair
	})
}

// TestOriginalDocument checks that a document without a header has no history.
func TestOriginalDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t.Context(), 1_700_000_000_000)
	must(Put(w.ctx, w.bucket, rootKey, []byte(
		`{"jobs":[{"id":"a","status":"unclaimed","payload":1,"createdAt":5,"attempts":0}],"broker":null,"brokerHeartbeat":0}`)))
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil || len(h.Spans()) != 1 {
		t.Fatalf("%v", err)
	}
	m, err := h.At(w.ctx, Target{Time: time.UnixMilli(1e15)})
	if err != nil || m.Job("a") == nil {
		t.Errorf("%v", err)
	}
	if _, err := h.At(w.ctx, Target{LSN: fsm.LSN{Index: 7}}); !errors.Is(err, ErrNotKept) {
		t.Errorf("%v", err)
	}
	if report, err := Verify(w.ctx, w.bucket, rootKey); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestOpenWithoutDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t.Context(), 1_700_000_000_000)
	if _, err := Open(w.ctx, w.bucket, rootKey); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	must(Put(w.ctx, w.bucket, rootKey, []byte("{")))
	if _, err := Open(w.ctx, w.bucket, rootKey); !errors.Is(err, ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}

// TestDocumentThatLies checks that the header of a document must match the state.
func TestDocumentThatLies(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	doc := *w.root
	doc.Archive = &document.Archive{Checkpoint: w.root.Archive.Checkpoint, Tail: w.root.Archive.Tail}
	if _, err := Machine(w.ctx, w.bucket, &doc); !errors.Is(err, ErrDamaged) {
		t.Errorf("a gap in the archive: %v", err)
	}
	w.damage(rootKey, func(data []byte) []byte {
		return bytes.Replace(data, []byte(`"lastSeq":`), []byte(`"lastSeq":1`), 1)
	})
	if report, err := Verify(w.ctx, w.bucket, rootKey); err != nil || report.Sound() {
		t.Errorf("other scalars: %+v, %v", report, err)
	}
}

// TestOverlap checks that, when two leaders have sealed segments at different places, a segment
// of one replaces a lost segment of the other.
func TestOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t.Context(), 1_700_000_000_000)
	l := w.leader
	w.checkpoint(l)
	l.r.work(11) // 1-2 to 1-12
	segment := func(after, last uint64) {
		t.Helper()
		tail := NewTail(fsm.LSN{Term: 1, Index: after})
		must(tail.Append(l.r.entries[after:last]...))
		ref, object := Segment(lineage, tail.Frame())
		must(Put(w.ctx, w.bucket, ref.Key, object))
	}
	segment(1, 8)  // of one leader
	segment(5, 12) // of another, whose segment from 1 to 5 is lost
	past, err := (&History{bucket: w.bucket, doc: &document.File{}, line: &line{
		checkpoints: []point{{lsn: l.arc.Checkpoint.LSN, at: l.arc.Checkpoint.At, key: l.arc.Checkpoint.Key}},
		sources:     sourcesOf(w.names()),
	}}).At(w.ctx, Target{LSN: fsm.LSN{Term: 1, Index: 10}})
	if err != nil || past.Meta().LSN.Index != 10 || past.View().Hash() != l.r.sums[past.Meta().LSN] {
		t.Errorf("through both: %v", err)
	}
}

func sourcesOf(names []string) (all []source) {
	for _, key := range names {
		if n, ok := parseName(key); ok && n.kind == segmentKind {
			all = append(all, source{after: n.after, last: n.last, until: n.at, key: key})
		}
	}
	slices.SortFunc(all, func(a, b source) int { return a.after.Compare(b.after) })
	return all
}

// TestBeforeTheFirstEntry checks that a time before the queue existed is refused, and that the
// error names the first possible time.
func TestBeforeTheFirstEntry(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		w := newWorld(t.Context(), 1_700_000_000_000)
		b, err := WriteCheckpoint(w.ctx, w.bucket, lineage, fsm.LSN{}, fsm.New().View()) // as a new cluster begins
		must(err)
		w.leader.arc, w.leader.tail = &document.Archive{Checkpoint: b}, NewTail(b.LSN)
		must(w.leader.tail.Append(w.leader.r.entries...))
		w.record(5)
		w.cut(w.leader)
		w.flush(large)
		h, err := Open(w.ctx, w.bucket, rootKey)
		must(err)
		if m, err := h.At(w.ctx, Target{Time: time.UnixMilli(5)}); !errors.Is(err, ErrNotKept) ||
			!strings.Contains(err.Error(), "the first state is of 2023-11-14T22:13:20") {
			t.Errorf("large: %v: %v, %v", large, m, err)
		}
		if _, err := h.At(w.ctx, Target{LSN: h.Spans()[0].From}); err != nil {
			t.Errorf("large: %v: the state before the first entry, by LSN: %v", large, err)
		}
	}
}
