package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"osqueue/storage/queuefile"
)

// segmentHeader is the header of a segment.
type segmentHeader struct {
	Lineage string `json:"lineage"`
	runJSON `json:",inline"`
}

// Segment makes an object of the entries of a tail, of which there must be some.
// The key has an id of its own, so that each call asks for another object.
// Nothing is written.
func Segment(lineage string, t queuefile.Tail) (queuefile.Ref, []byte) {
	object := append([]byte(segmentMagic), toJSON(segmentHeader{lineage, runToJSON(&t.Run)})...)
	object = append(object, '\n')
	object = seal(append(object, t.Data...))
	return queuefile.Ref{
		Key:    newName(segmentKind, lineage, t.After, t.Last, t.Until).key(),
		Run:    t.Run,
		Stored: int64(len(object)),
		Sum:    sha256.Sum256(object),
	}, object
}

// segment is a segment that was read: its sum holds, and it is what its key and
// whatever names it say. The entries are still to be read.
type segment struct {
	run   queuefile.Run
	frame []byte
}

// openSegment checks an object, of the segment with that key; ref is what a root
// or chapter says of it, or nil.
func openSegment(object []byte, key string, ref *queuefile.Ref) (*segment, error) {
	if err := checkObject(object, ref); err != nil {
		return nil, err
	}
	body, err := unseal(object, segmentMagic)
	if err != nil {
		return nil, err
	}
	head, frame, ok := bytes.Cut(body, []byte("\n"))
	if !ok || len(head) > headMax || len(frame) == 0 {
		return nil, errors.New("its header is damaged")
	}
	var h segmentHeader
	if err := fromJSON(head, &h); err != nil {
		return nil, fmt.Errorf("its header is damaged: %w", err)
	}
	s := &segment{frame: frame}
	if s.run, err = h.run(); err != nil {
		return nil, err
	}
	return s, agree(segmentKind, key, h.Lineage, &s.run, ref)
}

// checkObject compares the bytes of an object with what names it.
func checkObject(object []byte, ref *queuefile.Ref) error {
	switch {
	case ref == nil:
		return nil
	case int64(len(object)) != ref.Stored && !IsChapter(ref.Key):
		return fmt.Errorf("it has %d bytes and should have %d", len(object), ref.Stored)
	case sha256.Sum256(object) != ref.Sum:
		return errors.New("it is not the object that is named: its checksum does not match")
	}
	return nil
}
