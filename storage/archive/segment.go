package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

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
