package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"osqueue/storage/document"
)

// segmentHeader is the header of a segment.
type segmentHeader struct {
	Lineage string `json:"lineage"`
	document.Run
}

// Segment makes a segment of the entries of a tail, which must not be empty. The key has an id
// of its own, so that each call makes another object. Segment writes nothing to the bucket.
func Segment(lineage string, t document.Tail) (document.Ref, []byte) {
	object := append([]byte(segmentMagic), document.Marshal(segmentHeader{lineage, t.Run})...)
	object = append(object, '\n')
	object = seal(append(object, t.Data...))
	return document.Ref{
		Key:    newName(segmentKind, lineage, t.After, t.Last, t.Until).key(),
		Run:    t.Run,
		Stored: int64(len(object)),
		Sum:    sha256.Sum256(object),
	}, object
}

// segment is a segment whose checksum is correct and that matches its key and the reference to
// it. The entries are not decoded yet.
type segment struct {
	run   document.Run
	frame []byte
}

// openSegment checks the segment with the given key. ref is the reference of a root or segment
// index to it, or nil.
func openSegment(object []byte, key string, ref *document.Ref) (*segment, error) {
	if err := checkObject(object, ref); err != nil {
		return nil, err
	}
	body, err := unseal(object, segmentMagic)
	if err != nil {
		return nil, err
	}
	head, frame, ok := bytes.Cut(body, []byte("\n"))
	if !ok || len(head) > headMax || len(frame) == 0 {
		return nil, errors.New("the header is damaged")
	}
	var h segmentHeader
	if err := fromJSON(head, &h); err != nil {
		return nil, fmt.Errorf("the header is damaged: %w", err)
	}
	if err := checkRun(&h.Run); err != nil {
		return nil, err
	}
	s := &segment{run: h.Run, frame: frame}
	return s, agree(segmentKind, key, h.Lineage, &s.run, ref)
}

// checkObject compares the bytes of an object with the reference to it.
func checkObject(object []byte, ref *document.Ref) error {
	switch {
	case ref == nil:
		return nil
	case int64(len(object)) != ref.Stored && !IsSegmentIndex(ref.Key):
		return fmt.Errorf("the object has %d bytes; expected %d", len(object), ref.Stored)
	case sha256.Sum256(object) != ref.Sum:
		return errors.New("checksum mismatch: this is not the object that the document names")
	}
	return nil
}

// An object of the log is self-contained, whether a root names it or not:
//
//	magic    a line of text
//	header   a line of JSON
//	body     up to 32 bytes before the end
//	sha-256  of everything before
const (
	segmentMagic      = "osqueue segment 1\n"
	segmentIndexMagic = "osqueue chapter 1\n"
)

// headMax bounds the header of a segment.
const headMax = 4 << 10

// seal appends the checksum to an object.
func seal(object []byte) []byte {
	sum := sha256.Sum256(object)
	return append(object, sum[:]...)
}

// unseal checks the magic and the checksum of an object, and returns the bytes between them.
func unseal(object []byte, magic string) ([]byte, error) {
	rest, ok := bytes.CutPrefix(object, []byte(magic))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("the object is truncated, or not of the kind and version %q", magic[:len(magic)-1])
	}
	end := len(object) - sha256.Size
	if sha256.Sum256(object[:end]) != [sha256.Size]byte(object[end:]) {
		return nil, errors.New("checksum mismatch")
	}
	return rest[:len(rest)-sha256.Size], nil
}

// checkRun checks the run in the header of an object.
func checkRun(r *document.Run) error {
	switch {
	case r.After.Compare(r.Last) >= 0 || r.Entries == 0:
		return fmt.Errorf("the header names %d entries after %s up to %s", r.Entries, r.After, r.Last)
	case r.From < 0 || r.From > r.Until:
		return fmt.Errorf("the clock runs back, from %d to %d ms", r.From, r.Until)
	case r.Raw < 0:
		return fmt.Errorf("invalid size of %d bytes", r.Raw)
	}
	return nil
}

// fromJSON decodes a header. It refuses unknown fields: a version that adds one has another
// magic.
func fromJSON(data []byte, v any) error {
	return document.Unmarshal(data, v, json.RejectUnknownMembers(true))
}

// agree compares the run in an object with its key and, if a root or a segment index names the
// object, with that reference.
func agree(k kind, key, lineage string, run *document.Run, ref *document.Ref) error {
	n, ok := parseName(key)
	switch {
	case !ok || n.kind != k:
		return errors.New("the key is not valid for an object of this kind")
	case n.lineage != lineage || n.after != run.After || n.last != run.Last || n.at != run.Until:
		return fmt.Errorf("the object is of lineage %s, after %s up to %s at %d ms, which contradicts its key",
			lineage, run.After, run.Last, run.Until)
	case ref != nil && ref.Run != *run:
		return errors.New("the object does not hold the entries that its key names")
	}
	return nil
}

// segmentIndexHeader is the header, and the whole content, of a segment index.
type segmentIndexHeader struct {
	Lineage string         `json:"lineage"`
	Refs    []document.Ref `json:"refs"`
}

// SegmentIndex makes a segment index of refs, which must not be empty; each segment must begin where
// the one before it ends. An index keeps the root short. Its key has an id of its own. SegmentIndex
// writes nothing to the bucket.
func SegmentIndex(lineage string, refs []document.Ref) (document.Ref, []byte) {
	whole := document.Ref{Run: document.Run{
		After: refs[0].After, Last: refs[len(refs)-1].Last, From: refs[0].From, Until: refs[len(refs)-1].Until,
	}}
	for i := range refs {
		r := &refs[i]
		whole.Entries += r.Entries
		whole.Raw += r.Raw
		whole.Stored += r.Stored
	}
	object := append([]byte(segmentIndexMagic), document.Marshal(segmentIndexHeader{lineage, refs})...)
	object = seal(append(object, '\n'))
	whole.Stored += int64(len(object))
	whole.Key = newName(segmentIndexKind, lineage, whole.After, whole.Last, whole.Until).key()
	whole.Sum = sha256.Sum256(object)
	return whole, object
}

// IsSegmentIndex reports whether a key is that of a segment index and not of a segment.
func IsSegmentIndex(key string) bool { return strings.HasSuffix(key, segmentIndexSuffix) }

// openSegmentIndex checks the segment index with the given key, and returns its segments. ref is the
// root's reference to it, or nil.
func openSegmentIndex(object []byte, key string, ref *document.Ref) ([]document.Ref, error) {
	if err := checkObject(object, ref); err != nil {
		return nil, err
	}
	body, err := unseal(object, segmentIndexMagic)
	if err != nil {
		return nil, err
	}
	var h segmentIndexHeader
	if err := fromJSON(body, &h); err != nil {
		return nil, fmt.Errorf("the header is damaged: %w", err)
	}
	whole, err := h.check()
	if err != nil {
		return nil, err
	}
	if stored := whole.Stored + int64(len(object)); ref != nil && ref.Stored != stored {
		return nil, fmt.Errorf("the index and its segments have %d bytes; expected %d", stored, ref.Stored)
	}
	return h.Refs, agree(segmentIndexKind, key, h.Lineage, &whole.Run, ref)
}

// check checks the refs of a segment index, and sums them up.
func (h *segmentIndexHeader) check() (whole document.Ref, err error) {
	for i := range h.Refs {
		r := &h.Refs[i]
		if err := checkRef(r, h.Lineage); err != nil {
			return whole, fmt.Errorf("segment %d: %w", i, err)
		}
		if i == 0 {
			whole.After, whole.From, whole.Last, whole.Until = r.After, r.From, r.After, r.From
		}
		if r.After != whole.Last || r.From < whole.Until {
			return whole, fmt.Errorf("segment %d begins after %s at %d ms, but the log before it ends at %s at %d ms",
				i, r.After, r.From, whole.Last, whole.Until)
		}
		whole.Last, whole.Until = r.Last, r.Until
		whole.Entries += r.Entries
		whole.Raw += r.Raw
		whole.Stored += r.Stored
	}
	if len(h.Refs) == 0 {
		return whole, errors.New("the index is empty")
	}
	return whole, nil
}

func checkRef(r *document.Ref, lineage string) error {
	n, ok := parseName(r.Key)
	switch {
	case !ok || n.kind != segmentKind || n.lineage != lineage || n.after != r.After || n.last != r.Last || n.at != r.Until:
		return fmt.Errorf("the key %q is not valid", r.Key)
	case r.Stored < 0:
		return fmt.Errorf("the size %d is not valid", r.Stored)
	}
	return checkRun(&r.Run)
}
