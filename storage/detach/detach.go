// Package detach is a decorator that returns every call on a bucket when the call's
// context ends, even if the driver does not.
//
// # Problem
//
// A system call on a file system that hangs (NFS, a network volume) has no context. A
// caller waits for as long as the file system hangs, and delays work with a deadline: the
// end of a leader's term, or of the process.
//
// # How
//
// The Bucket calls the driver on a new goroutine. If the context ends first, the call
// returns the context's error, and the goroutine continues until the driver returns. A
// driver that obeys its context has Grace to return an error of its own. A detached write
// may still be applied: its outcome is storage.Unknown. At most Max calls are detached;
// while so many hang, further calls are refused at once.
package detach

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/storage"
)

// Max is the largest number of detached calls.
const Max = 64

// Bucket calls another bucket and returns when the call's context ends. It is safe for
// concurrent use.
type Bucket struct {
	inner storage.Bucket
	left  atomic.Int64 // detached calls that have not returned
}

var _ storage.Bucket = (*Bucket)(nil)

// New decorates inner.
func New(inner storage.Bucket) *Bucket { return &Bucket{inner: inner} }

// Grace is the time in which a driver that obeys contexts can return its own error.
const Grace = 50 * time.Millisecond

// The states of a call.
const (
	running  = iota
	ended    // the driver has returned
	detached // the caller has returned first
)

// call runs do, which puts its result where the caller finds it once call has returned
// nil. Otherwise do may run for longer.
func (b *Bucket) call(ctx context.Context, do func()) error {
	if ctx.Done() == nil {
		do()
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.left.Load() >= Max {
		// Wrapped, because it was not applied and never will be.
		return fmt.Errorf("%d calls to the bucket hang; no further call is made until one of them returns: %w", Max, storage.ErrThrottled)
	}
	var state atomic.Int32
	done := make(chan struct{})
	go func() {
		do()
		close(done)
		if !state.CompareAndSwap(running, ended) {
			b.left.Add(-1)
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-done:
		return nil
	case <-grace.C:
	}
	b.left.Add(1)
	if !state.CompareAndSwap(running, detached) { // it has just returned
		b.left.Add(-1)
		<-done
		return nil
	}
	return fmt.Errorf("the bucket did not answer in time: %w", ctx.Err())
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	type answer struct {
		object storage.Object
		err    error
	}
	a := new(answer)
	if err := b.call(ctx, func() { a.object, a.err = b.inner.Get(ctx, key) }); err != nil {
		return storage.Object{}, fmt.Errorf("get %q: %w", key, err)
	}
	return a.object, a.err
}

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, key, func() storage.Write { return b.inner.PutIfAbsent(ctx, key, data) })
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.put(ctx, key, func() storage.Write { return b.inner.PutIfMatch(ctx, key, data, v) })
}

func (b *Bucket) put(ctx context.Context, key string, do func() storage.Write) storage.Write {
	w := new(storage.Write)
	if err := b.call(ctx, func() { *w = do() }); err != nil {
		return storage.Write{Outcome: storage.Unknown, Err: fmt.Errorf("put %q: %w", key, err)}
	}
	return *w
}

// List implements storage.Bucket. It does not call fn after it has returned.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	var mu sync.Mutex // held while fn runs
	over := false
	err := new(error)
	left := b.call(ctx, func() {
		*err = b.inner.List(ctx, prefix, func(i storage.Info) bool {
			mu.Lock()
			defer mu.Unlock()
			return !over && fn(i)
		})
	})
	if left != nil {
		mu.Lock()
		defer mu.Unlock()
		over = true
		return fmt.Errorf("list %q: %w", prefix, left)
	}
	return *err
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := new(error)
	if left := b.call(ctx, func() { *err = b.inner.Delete(ctx, key) }); left != nil {
		return fmt.Errorf("delete %q: %w", key, left)
	}
	return *err
}

// DeleteBatch implements storage.BatchDeleter.
func (b *Bucket) DeleteBatch(ctx context.Context, keys []string) map[string]error {
	batches, ok := b.inner.(storage.BatchDeleter)
	if !ok {
		return storage.DeleteEach(ctx, b, keys)
	}
	type answer struct{ failed map[string]error }
	a, keys := new(answer), slices.Clone(keys)
	if err := b.call(ctx, func() { a.failed = batches.DeleteBatch(ctx, keys) }); err != nil {
		failed := make(map[string]error, len(keys))
		for _, key := range keys {
			failed[key] = fmt.Errorf("delete %q: %w", key, err)
		}
		return failed
	}
	return a.failed
}

// Close implements storage.Bucket. It does not wait for calls that were left behind.
func (b *Bucket) Close() error { return b.inner.Close() }
