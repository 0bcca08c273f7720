package storage

import (
	"context"
	"maps"
	"sync"
)

// MaxBatch is the most keys that DeleteBatch takes.
const MaxBatch = 1000

// BatchDeleter is implemented by a Bucket that removes several objects with one request.
type BatchDeleter interface {
	// DeleteBatch removes up to MaxBatch keys unconditionally, in no particular order.
	// Deleting an absent object succeeds. It returns an error for each key whose object may
	// still be there; an empty map says that all are gone.
	DeleteBatch(ctx context.Context, keys []string) map[string]error
}

// deleteParallel is how many objects DeleteAll removes at a time where there are no batches.
const deleteParallel = 8

// DeleteAll removes keys in no particular order: with batches if b has them, and otherwise several
// at a time. It returns an error for each key whose object may still be there.
func DeleteAll(ctx context.Context, b Bucket, keys []string) map[string]error {
	batches, ok := b.(BatchDeleter)
	if !ok {
		return DeleteEach(ctx, b, keys)
	}
	failed := make(map[string]error)
	for len(keys) > 0 {
		n := min(len(keys), MaxBatch)
		maps.Copy(failed, batches.DeleteBatch(ctx, keys[:n]))
		keys = keys[n:]
	}
	return failed
}

// DeleteEach is DeleteAll with a request for each key.
func DeleteEach(ctx context.Context, b Bucket, keys []string) map[string]error {
	failed := make(map[string]error)
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, deleteParallel)
	for _, key := range keys {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := b.Delete(ctx, key); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[key] = err
			}
		})
	}
	group.Wait()
	return failed
}
