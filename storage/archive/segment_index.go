package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"osqueue/storage/document"
)

// segmentIndexHeader is the header, and the whole content, of a segment index.
type segmentIndexHeader struct {
	Lineage string    `json:"lineage"`
	Refs    []refJSON `json:"refs"`
}

type refJSON struct {
	Key     string `json:"key"`
	runJSON `json:",inline"`
	Stored  int64  `json:"stored"`
	Sum     string `json:"sha256"`
}

// SegmentIndex makes a segment index of refs, which must not be empty; each segment must begin where
// the one before it ends. An index keeps the root short. Its key has an id of its own. SegmentIndex
// writes nothing to the bucket.
func SegmentIndex(lineage string, refs []document.Ref) (document.Ref, []byte) {
	h := segmentIndexHeader{Lineage: lineage}
	whole := document.Ref{Run: document.Run{
		After: refs[0].After, Last: refs[len(refs)-1].Last, From: refs[0].From, Until: refs[len(refs)-1].Until,
	}}
	for i := range refs {
		r := &refs[i]
		h.Refs = append(h.Refs, refJSON{r.Key, runToJSON(&r.Run), r.Stored, hex.EncodeToString(r.Sum[:])})
		whole.Entries += r.Entries
		whole.Raw += r.Raw
		whole.Stored += r.Stored
	}
	object := append([]byte(segmentIndexMagic), toJSON(h)...)
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
	refs, whole, err := h.read()
	if err != nil {
		return nil, err
	}
	if stored := whole.Stored + int64(len(object)); ref != nil && ref.Stored != stored {
		return nil, fmt.Errorf("the index and its segments have %d bytes; expected %d", stored, ref.Stored)
	}
	return refs, agree(segmentIndexKind, key, h.Lineage, &whole.Run, ref)
}

// read checks the refs of a segment index, and sums them up.
func (h *segmentIndexHeader) read() (refs []document.Ref, whole document.Ref, err error) {
	for i := range h.Refs {
		r, err := h.Refs[i].ref(h.Lineage)
		if err != nil {
			return nil, whole, fmt.Errorf("segment %d: %w", i, err)
		}
		if i == 0 {
			whole.After, whole.From, whole.Last, whole.Until = r.After, r.From, r.After, r.From
		}
		if r.After != whole.Last || r.From < whole.Until {
			return nil, whole, fmt.Errorf("segment %d begins after %s at %d ms, but the log before it ends at %s at %d ms",
				i, r.After, r.From, whole.Last, whole.Until)
		}
		whole.Last, whole.Until = r.Last, r.Until
		whole.Entries += r.Entries
		whole.Raw += r.Raw
		whole.Stored += r.Stored
		refs = append(refs, r)
	}
	if len(refs) == 0 {
		return nil, whole, errors.New("the index is empty")
	}
	return refs, whole, nil
}

func (j *refJSON) ref(lineage string) (r document.Ref, err error) {
	if r.Run, err = j.run(); err != nil {
		return r, err
	}
	n, ok := parseName(j.Key)
	if !ok || n.kind != segmentKind || n.lineage != lineage || n.after != r.After || n.last != r.Last || n.at != r.Until {
		return r, fmt.Errorf("the key %q is not valid", j.Key)
	}
	r.Key, r.Stored = j.Key, j.Stored
	if len(j.Sum) != hex.EncodedLen(len(r.Sum)) || j.Stored < 0 {
		return r, fmt.Errorf("the checksum %.80q or the size %d is not valid", j.Sum, j.Stored)
	}
	_, err = hex.Decode(r.Sum[:], []byte(j.Sum))
	return r, err
}
