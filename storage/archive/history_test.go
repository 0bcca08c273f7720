package archive

import (
	"errors"
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// TestDocumentThatLies checks that an archive with a gap is damaged.
func TestDocumentThatLies(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	doc := *w.root
	doc.Archive = &document.Archive{Checkpoint: w.root.Archive.Checkpoint, Tail: w.root.Archive.Tail}
	if _, err := Machine(w.ctx, w.bucket, &doc); !errors.Is(err, ErrDamaged) {
		t.Errorf("a gap in the archive: %v", err)
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
	past, err := (&History{bucket: w.bucket, doc: &document.File{}, chain: &chain{
		checkpoints: []point{{lsn: l.arc.Checkpoint.LSN, at: l.arc.Checkpoint.At, key: l.arc.Checkpoint.Key}},
		sources:     sourcesOf(w.names()),
	}}).At(w.ctx, Target{LSN: fsm.LSN{Term: 1, Index: 10}})
	if err != nil || past.LSN().Index != 10 || past.View().Hash() != l.r.sums[past.LSN()] {
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
