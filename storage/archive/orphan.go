package archive

import (
	"context"
	"fmt"

	"osqueue/storage"
)

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
