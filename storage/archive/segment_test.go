package archive

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// segmentOf returns a segment of n plain entries.
func segmentOf(after fsm.LSN, n int) (document.Ref, []byte) {
	tail := NewTail(after)
	must(tail.Append(plainEntries(after, n)...))
	return Segment(lineage, tail.Frame())
}

// read returns the entries of a segment.
func (s *segment) read() (got []Entry, err error) {
	err = new(runReader).read(s.frame, &s.run, nil, func(e Entry) error {
		e.Data = bytes.Clone(e.Data)
		got = append(got, e)
		return nil
	})
	return got, err
}

func TestSegment(t *testing.T) {
	t.Parallel()
	after := fsm.LSN{Term: 4, Index: 17}
	ref, object := segmentOf(after, 100)
	if ref.After != after || ref.Entries != 100 || ref.Stored != int64(len(object)) || ref.Sum != sha256.Sum256(object) {
		t.Errorf("%+v", ref)
	}
	if again, _ := segmentOf(after, 100); again.Key == ref.Key {
		t.Errorf("two attempts have the same key %q", ref.Key)
	}
	for _, named := range []*document.Ref{&ref, nil} {
		s, err := openSegment(object, ref.Key, named)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.read()
		if err != nil || !slices.EqualFunc(got, plainEntries(after, 100), sameEntry) {
			t.Errorf("%d entries come back: %v", len(got), err)
		}
	}
}

// TestDamagedSegment checks that a segment without a reference to it reveals its damage.
func TestDamagedSegment(t *testing.T) {
	t.Parallel()
	ref, object := segmentOf(fsm.LSN{Term: 4, Index: 17}, 5)
	for i := range object {
		bad := bytes.Clone(object)
		bad[i] ^= 1
		if _, err := openSegment(bad, ref.Key, nil); err == nil {
			t.Errorf("a change of byte %d is not noticed", i)
		}
		if _, err := openSegment(object[:i], ref.Key, nil); err == nil {
			t.Errorf("the first %d bytes are taken for all", i)
		}
	}
	other, stranger := segmentOf(fsm.LSN{Term: 4, Index: 17}, 6)
	moved := ref
	moved.Until++
	for what, err := range map[string]error{
		"another segment's key": openOnly(object, other.Key, nil),
		"a segment index's key": openOnly(object, strings.TrimSuffix(ref.Key, segmentSuffix)+segmentIndexSuffix, nil),
		"another lineage":       openOnly(object, strings.Replace(ref.Key, lineage, "other", 1), nil),
		"no key of ours":        openOnly(object, "x", nil),
		"another segment":       openOnly(stranger, ref.Key, &ref),
		"another run":           openOnly(object, ref.Key, &moved),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func openOnly(object []byte, key string, ref *document.Ref) error {
	_, err := openSegment(object, key, ref)
	return err
}

// segmentIndexOf returns an index of len(counts) segments. counts are their numbers of entries.
func segmentIndexOf(after fsm.LSN, counts ...int) (document.Ref, []byte, []document.Ref) {
	var refs []document.Ref
	tail := NewTail(after)
	at := int64(1_700_000_000_000)
	for _, n := range counts {
		lsn := tail.Run().Last
		tail = NewTail(lsn)
		for _, e := range plainEntries(lsn, n) {
			at += 7
			e.At = at
			must(tail.Append(e))
		}
		ref, _ := Segment(lineage, tail.Frame())
		refs = append(refs, ref)
	}
	whole, object := SegmentIndex(lineage, refs)
	return whole, object, refs
}

func TestSegmentIndex(t *testing.T) {
	t.Parallel()
	after := fsm.LSN{Term: 4, Index: 17}
	whole, object, refs := segmentIndexOf(after, 3, 1, 8)
	stored := int64(len(object))
	for _, r := range refs {
		stored += r.Stored
	}
	if whole.After != after || whole.Last.Index != 29 || whole.Entries != 12 || whole.Stored != stored ||
		whole.From != refs[0].From || whole.Until != refs[2].Until || !IsSegmentIndex(whole.Key) {
		t.Errorf("%+v", whole)
	}
	for _, named := range []*document.Ref{&whole, nil} {
		got, err := openSegmentIndex(object, whole.Key, named)
		if err != nil || !slices.Equal(got, refs) {
			t.Errorf("%+v: %v", got, err)
		}
	}
}

func TestDamagedSegmentIndex(t *testing.T) {
	t.Parallel()
	after := fsm.LSN{Term: 4, Index: 17}
	whole, object, refs := segmentIndexOf(after, 3, 1, 8)
	for i := range object {
		bad := bytes.Clone(object)
		bad[i] ^= 1
		if _, err := openSegmentIndex(bad, whole.Key, nil); err == nil {
			t.Errorf("a change of byte %d is not noticed", i)
		}
		if _, err := openSegmentIndex(object[:i], whole.Key, nil); err == nil {
			t.Errorf("the first %d bytes are taken for all", i)
		}
	}
	for what, change := range map[string]func(r *document.Ref){
		"entries": func(r *document.Ref) { r.Entries++ },
		"stored":  func(r *document.Ref) { r.Stored++ },
		"raw":     func(r *document.Ref) { r.Raw++ },
		"from":    func(r *document.Ref) { r.From++ },
		"sum":     func(r *document.Ref) { r.Sum[5]++ },
	} {
		named := whole
		change(&named)
		if _, err := openSegmentIndex(object, whole.Key, &named); err == nil {
			t.Errorf("another %s is not noticed", what)
		}
	}
	for what, bad := range map[string][]document.Ref{
		"a gap":                 {refs[0], refs[2]},
		"another order":         {refs[1], refs[0]},
		"a segment index in it": {whole},
		"a key of another":      {refs[0], withKey(refs[1], refs[2].Key)},
		"a stranger's key":      {withKey(refs[0], "x")},
	} {
		ref, object := SegmentIndex(lineage, bad)
		if _, err := openSegmentIndex(object, ref.Key, &ref); err == nil {
			t.Errorf("%s is not noticed", what)
		}
	}
}

func withKey(r document.Ref, key string) document.Ref {
	r.Key = key
	return r
}
