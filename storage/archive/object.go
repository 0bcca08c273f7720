package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"osqueue/storage/document"
)

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
