package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"

	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// Audit looks for missing or damaged objects that a document needs, while a leader continues to
// write. It remembers the names in immutable objects, so that a round costs one or two
// listings. An Audit must be used by one goroutine at a time.
type Audit struct {
	bucket         storage.Bucket
	checkpoint     *blob.Manifest // of the checkpoint that was looked at last
	segmentIndexes map[string][]document.Ref
	last           string // key of the object that was read last
}

// NewAudit makes an audit of a bucket.
func NewAudit(bucket storage.Bucket) *Audit {
	return &Audit{bucket: bucket, segmentIndexes: make(map[string][]document.Ref)}
}

// Finding is an object that a document needs and that is missing or damaged.
type Finding struct {
	Named string // the key in the document that leads to the object
	Key   string // of the object
	Err   error  // wraps ErrDamaged
}

// needed is an object that a document needs.
type needed struct {
	named, key string
	check      func(object []byte) error // compares its bytes with what the document says
}

// listMost bounds the names that one round lists. Objects after them are found by reading.
const listMost = 5000

// Missing looks by listings for objects that root needs and that are gone. It returns nil
// if none is, as far as it has looked. An error is the store's.
func (a *Audit) Missing(ctx context.Context, root *document.Archive) (*Finding, error) {
	all, found, err := a.needs(ctx, root)
	if found != nil || err != nil {
		return found, err
	}
	var checkpoint, log []needed
	for _, n := range all {
		if strings.HasPrefix(n.key, checkpointPrefix) {
			checkpoint = append(checkpoint, n)
		} else {
			log = append(log, n)
		}
	}
	for _, group := range [][]needed{checkpoint, log} {
		if found, err := a.list(ctx, group); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// Read reads up to n of the objects that root needs, behind those that the last call has
// read, and compares their checksums. It returns the first one that is damaged or missing.
func (a *Audit) Read(ctx context.Context, root *document.Archive, n int) (*Finding, error) {
	all, found, err := a.needs(ctx, root)
	if found != nil || err != nil {
		return found, err
	}
	at := slices.IndexFunc(all, func(o needed) bool { return o.key > a.last })
	for range min(n, len(all)) {
		if at < 0 || at == len(all) {
			at = 0
		}
		if found, err := all[at].read(ctx, a.bucket); found != nil || err != nil {
			return found, err
		}
		a.last = all[at].key
		at++
	}
	return nil, nil
}

// Objects returns the number of objects that root needs, as of the last call of Missing or
// Read.
func (a *Audit) Objects(root *document.Archive) int {
	n := 1 + len(root.Log)
	if a.checkpoint != nil {
		n += len(a.checkpoint.Parts)
	}
	for _, refs := range a.segmentIndexes {
		n += len(refs)
	}
	return n
}

// fetch returns the bytes of an object, which it has checked.
func (n *needed) fetch(ctx context.Context, bucket storage.Bucket) ([]byte, error) {
	return fetch(ctx, bucket, n.key, func(object []byte) ([]byte, error) { return object, n.check(object) })
}

// read checks an object. A finding is about the object, an error is the store's.
func (n *needed) read(ctx context.Context, bucket storage.Bucket) (*Finding, error) {
	_, err := n.fetch(ctx, bucket)
	if errors.Is(err, ErrDamaged) {
		return &Finding{Named: n.named, Key: n.key, Err: err}, nil
	}
	return nil, err
}

// needs returns all objects that root needs, by key. It reads the manifest of a checkpoint, and
// segment indexes, the first time that it finds them.
func (a *Audit) needs(ctx context.Context, root *document.Archive) (all []needed, found *Finding, err error) {
	if key := root.Checkpoint.Key; key != "" {
		if found, err = a.readCheckpoint(ctx, &root.Checkpoint); found != nil || err != nil {
			return nil, found, err
		}
		all = append(all, needed{key, key, func(object []byte) error {
			if sha256.Sum256(object) != root.Checkpoint.Sum {
				return errors.New("checksum mismatch of the manifest")
			}
			return nil
		}})
		m := a.checkpoint
		for i, part := range m.PartKeys() {
			all = append(all, needed{key, part, m.Parts[i].Check})
		}
	}
	named := make(map[string]bool)
	for i := range root.Log {
		ref := &root.Log[i]
		all = append(all, needed{ref.Key, ref.Key, func(object []byte) error { return checkObject(object, ref) }})
		if !IsSegmentIndex(ref.Key) {
			continue
		}
		refs, found, err := a.segmentIndex(ctx, ref)
		if found != nil || err != nil {
			return nil, found, err
		}
		// Stored at once: after a pass that ends early the next one continues here.
		named[ref.Key], a.segmentIndexes[ref.Key] = true, refs
		for j := range refs {
			all = append(all, needed{ref.Key, refs[j].Key, func(object []byte) error { return checkObject(object, &refs[j]) }})
		}
	}
	maps.DeleteFunc(a.segmentIndexes, func(key string, _ []document.Ref) bool { return !named[key] })
	slices.SortFunc(all, func(x, y needed) int { return strings.Compare(x.key, y.key) })
	return all, nil, nil
}

func (a *Audit) readCheckpoint(ctx context.Context, b *document.Checkpoint) (*Finding, error) {
	if a.checkpoint != nil && a.checkpoint.Key == b.Key {
		return nil, nil
	}
	m, err := blob.Stat(ctx, a.bucket, b.Key, &b.Sum)
	if err = asDamage(err); errors.Is(err, ErrDamaged) {
		return &Finding{Named: b.Key, Key: b.Key, Err: err}, nil
	}
	a.checkpoint = m // nil after an error
	return nil, err
}

// segmentIndex returns the segments of a segment index.
func (a *Audit) segmentIndex(ctx context.Context, ref *document.Ref) (refs []document.Ref, found *Finding, err error) {
	if refs, ok := a.segmentIndexes[ref.Key]; ok {
		return refs, nil, nil
	}
	n := needed{ref.Key, ref.Key, func(object []byte) (err error) {
		refs, err = openSegmentIndex(object, ref.Key, ref)
		return err
	}}
	found, err = n.read(ctx, a.bucket)
	return refs, found, err
}

// list looks for objects by listing their common key prefix. An object that is not listed is
// read before it is reported as missing.
func (a *Audit) list(ctx context.Context, all []needed) (*Finding, error) {
	if len(all) == 0 {
		return nil, nil
	}
	last, listed, names, end := all[len(all)-1].key, make(map[string]bool), 0, ""
	err := a.bucket.List(ctx, commonPrefix(all[0].key, last), func(i storage.Info) bool {
		names, end = names+1, i.Key
		listed[i.Key] = true
		return i.Key < last && names < listMost
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		n := &all[i]
		if listed[n.key] || names >= listMost && n.key > end {
			continue
		}
		if found, err := n.read(ctx, a.bucket); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

func commonPrefix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
