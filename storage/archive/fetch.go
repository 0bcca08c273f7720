package archive

import (
	"context"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// Put writes an object under a key that no other object has. See blob.Put.
func Put(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	return blob.Put(ctx, bucket, key, data)
}

// fetch reads an object and parses it with open. The error wraps ErrDamaged if the object is
// missing or damaged. Any other error is the store's.
func fetch[T any](ctx context.Context, bucket storage.Bucket, key string, open func(object []byte) (T, error)) (T, error) {
	value, err := blob.Fetch(ctx, bucket, key, open)
	if err != nil {
		err = &ObjectError{key, asDamage(err)}
	}
	return value, err
}

// ObjectError is an error about one object.
type ObjectError struct {
	Key string // "": the document itself
	Err error
}

// Error returns the key of the object and the error.
func (e *ObjectError) Error() string {
	if e.Key == "" {
		return "the document: " + e.Err.Error()
	}
	return fmt.Sprintf("object %q: %v", e.Key, e.Err)
}

// Unwrap returns the error about the object.
func (e *ObjectError) Unwrap() error { return e.Err }

// source is a readable part of the log: an object, or the tail of a document.
type source struct {
	after, last fsm.LSN
	until       int64          // clock at last, ms
	key         string         // "": the tail
	ref         *document.Ref  // the reference that names the object with its checksum; nil: a listing
	tail        *document.Tail // of the document
}

func refSource(r *document.Ref) source {
	return source{after: r.After, last: r.Last, until: r.Until, key: r.Key, ref: r}
}

func nameSource(n name) source {
	return source{after: n.after, last: n.last, until: n.at, key: n.key()}
}

func tailSource(t *document.Tail) source {
	return source{after: t.After, last: t.Last, until: t.Until, tail: t}
}

// readSegmentIndex fetches a segment index and returns its segments as sources.
func readSegmentIndex(ctx context.Context, bucket storage.Bucket, s source) ([]source, error) {
	refs, err := fetch(ctx, bucket, s.key, func(object []byte) ([]document.Ref, error) {
		return openSegmentIndex(object, s.key, s.ref)
	})
	if err != nil {
		return nil, err
	}
	parts := make([]source, len(refs))
	for i := range refs {
		parts[i] = refSource(&refs[i])
	}
	return parts, nil
}

// expand replaces segment indexes by their segments that have entries after the LSN after and
// up to upTo.
func expand(ctx context.Context, bucket storage.Bucket, sources []source, after, upTo fsm.LSN) ([]source, error) {
	var flat []source
	parts := func(ctx context.Context, s source) ([]source, error) {
		if !IsSegmentIndex(s.key) {
			return []source{s}, nil
		}
		return readSegmentIndex(ctx, bucket, s)
	}
	for some, err := range blob.Ahead(ctx, readAhead, sources, parts) {
		if err != nil {
			return nil, err
		}
		for _, s := range some {
			if s.last.Compare(after) > 0 && s.after.Compare(upTo) < 0 {
				flat = append(flat, s)
			}
		}
	}
	return flat, nil
}

// opened is a source whose bytes are in memory.
type opened struct {
	source
	segment *segment // nil: the tail
}

// readSource fetches a source that is not a segment index.
func readSource(ctx context.Context, bucket storage.Bucket, s source) (opened, error) {
	if s.tail != nil {
		return opened{source: s}, nil
	}
	seg, err := fetch(ctx, bucket, s.key, func(object []byte) (*segment, error) {
		return openSegment(object, s.key, s.ref)
	})
	return opened{s, seg}, err
}

// source calls fn for the entries of a source.
func (r *runReader) source(o *opened, fn func(Entry) error) error {
	if o.segment == nil {
		return r.tail(o.tail, fn)
	}
	if err := r.read(o.segment.frame, &o.segment.run, nil, fn); err != nil {
		return &ObjectError{o.key, fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	return nil
}

// readAhead is how many objects are fetched while one is worked on.
const readAhead = 4
