package archive

import (
	"context"
	"fmt"

	"osqueue/storage"
)

// Used is the space of a lineage's objects in a bucket, whether they are needed or not.
type Used struct {
	Checkpoints     int // whole ones
	CheckpointBytes int64
	Log             int // segments and segment indexes
	LogBytes        int64
}

// Usage counts the objects of a lineage by a listing.
func Usage(ctx context.Context, bucket storage.Bucket, lineage string) (Used, error) {
	var u Used
	if lineage == "" {
		return u, nil // an older broker's document has none
	}
	for _, prefix := range []string{checkpointPrefix, logPrefix} {
		prefix += lineage + "/"
		err := bucket.List(ctx, prefix, func(i storage.Info) bool {
			u.count(i)
			return true
		})
		if err != nil {
			return u, fmt.Errorf("list %q: %w", prefix, err)
		}
	}
	return u, nil
}

func (u *Used) count(i storage.Info) {
	n, ok := parseName(i.Key)
	switch {
	case !ok:
	case n.kind == segmentKind || n.kind == segmentIndexKind:
		u.Log++
		u.LogBytes += i.Size
	default:
		u.CheckpointBytes += i.Size
		if n.kind == manifestKind {
			u.Checkpoints++
		}
	}
}

// Describe returns the kind of an object by its key, for people; "" for a key that is not of
// this package.
func Describe(key string) string {
	n, ok := parseName(key)
	if !ok {
		return ""
	}
	switch n.kind {
	case segmentKind:
		return fmt.Sprintf("log segment after %s up to %s", n.after, n.last)
	case segmentIndexKind:
		return fmt.Sprintf("segment index of the log after %s up to %s", n.after, n.last)
	case partKind:
		return fmt.Sprintf("part of the checkpoint of %s", n.last)
	default:
		return fmt.Sprintf("checkpoint of %s", n.last)
	}
}

// HasArchive reports whether the bucket has an object of an archive, of any lineage, from which
// a document could be rebuilt. Each queue begins with an empty checkpoint, and a small one may
// have only that. HasArchive reads one page of each of two listings.
func HasArchive(ctx context.Context, bucket storage.Bucket) (found bool, err error) {
	for _, prefix := range []string{checkpointPrefix, logPrefix} {
		err := bucket.List(ctx, prefix, func(i storage.Info) bool {
			n, ok := parseName(i.Key)
			found = ok && !n.last.IsZero()
			return !found
		})
		if err != nil {
			return false, fmt.Errorf("list %q: %w", prefix, err)
		}
		if found {
			break
		}
	}
	return found, nil
}
