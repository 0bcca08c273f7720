package blob

import (
	"context"
	"fmt"
	"strings"

	"osqueue/storage"
)

// Delete removes the blob with that prefix, whole or not: the manifest first, so
// that what is left, if it fails on the way, is no blob. Repeating it removes the
// rest. Objects under the prefix that are not a blob's stay.
func Delete(ctx context.Context, bucket storage.Bucket, prefix string) error {
	if err := remove(ctx, bucket, ManifestKey(prefix)); err != nil {
		return err
	}
	var keys []string
	err := retry(ctx, triesToReach, func() error {
		keys = keys[:0]
		return bucket.List(ctx, prefix+"/", func(o storage.Info) bool {
			if isPart(strings.TrimPrefix(o.Key, prefix+"/")) {
				keys = append(keys, o.Key)
			}
			return true
		})
	})
	if err != nil {
		return fmt.Errorf("list the parts of blob %q: %w", prefix, err)
	}
	for _, key := range keys {
		if err := remove(ctx, bucket, key); err != nil {
			return err
		}
	}
	return nil
}

func remove(ctx context.Context, bucket storage.Bucket, key string) error {
	if err := retry(ctx, triesToReach, func() error { return bucket.Delete(ctx, key) }); err != nil {
		return fmt.Errorf("remove %q: %w", key, err)
	}
	return nil
}
