package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"osqueue/storage/document"
)

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
