package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// CopyPrefix begins the keys of copies of documents that were replaced.
const CopyPrefix = "conflicts/"

// copiesMost bounds the copies whose objects are kept.
const copiesMost = 1000

// Copy names the objects that a copy of a document needs: a checkpoint, and the log from
// there to the state of the document.
type Copy struct {
	lineage, checkpoint string // checkpoint is the directory of the checkpoint
	from, to            fsm.LSN
}

// needs reports whether a copy needs an object.
func (c *Copy) needs(n name) bool {
	switch {
	case n.lineage != c.lineage:
		return false
	case n.kind.ofCheckpoint():
		return n.directory() == c.checkpoint
	default:
		return n.last.Compare(c.from) > 0 && n.after.Compare(c.to) < 0
	}
}

// Copies reads the copies in a bucket, each of them once: they do not change. The zero value
// is ready to use. One goroutine uses it.
type Copies struct {
	known map[string]*Copy // by key; nil: a copy that needs nothing
}

// Read returns the objects that the present copies in the bucket need, for up to 1000 copies.
// more reports whether there are others.
func (s *Copies) Read(ctx context.Context, bucket storage.Bucket) (all []Copy, more bool, err error) {
	var keys []string
	err = bucket.List(ctx, CopyPrefix, func(i storage.Info) bool {
		more = len(keys) == copiesMost
		if !more {
			keys = append(keys, i.Key)
		}
		return !more
	})
	if err != nil {
		return nil, false, fmt.Errorf("list %q: %w", CopyPrefix, err)
	}
	known := make(map[string]*Copy, len(keys))
	for _, key := range keys {
		c, ok := s.known[key]
		if !ok {
			if c, err = readCopy(ctx, bucket, key); err != nil {
				return nil, false, err
			}
		}
		known[key] = c
		if c != nil {
			all = append(all, *c)
		}
	}
	s.known = known
	return all, more, nil
}

// readCopy returns nil if the object does not exist, or is not a document with an archive.
func readCopy(ctx context.Context, bucket storage.Bucket, key string) (*Copy, error) {
	obj, err := bucket.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the copy %q: %w", key, err)
	}
	doc, err := document.Decode(obj.Data)
	if err != nil || doc.Archive == nil {
		return nil, nil //nolint:nilerr // what cannot be read needs nothing
	}
	return &Copy{
		lineage: doc.Lineage(), checkpoint: strings.TrimSuffix(doc.Archive.Checkpoint.Key, manifestSuffix),
		from: doc.Archive.Checkpoint.LSN, to: doc.Archive.LSN(),
	}, nil
}

// isNeededByCopy reports whether one of the copies needs an object.
func isNeededByCopy(copies []Copy, n name) bool {
	for i := range copies {
		if copies[i].needs(n) {
			return true
		}
	}
	return false
}
