// Package metered is a decorator that reports to an observer every operation
// on a bucket: which one, how it ended, how many bytes, how long. The observer
// feeds metrics, a log or a test's counter.
package metered

import (
	"context"
	"errors"
	"time"

	"osqueue/storage"
)

// Result says how an operation ended. The set is small and closed, so that it
// can be a metric's label.
type Result string

// The results of operations.
const (
	OK        Result = "ok"        // get, list, delete
	NotFound  Result = "not_found" // get
	Committed Result = "committed" // put
	Conflict  Result = "conflict"  // put
	Unknown   Result = "unknown"   // put: may or may not have been applied
	Throttled Result = "throttled" // refused by a rate limit
	Cancelled Result = "cancelled" // the caller's context was cancelled, not timed out
	Failed    Result = "error"     // get, list, delete
)

// Observation is one finished operation.
type Observation struct {
	Op     storage.Op
	Key    string // for a listing: the prefix
	Result Result
	// Listed is the number of objects that a listing passed to its callback.
	Listed int
	// Bytes is the number of bytes of the object that were read, or offered for writing.
	Bytes    int
	Duration time.Duration
	// Err is nil for an operation that succeeded or ended in a plain Conflict.
	Err error
}

// Observer observes each operation after it has ended and before its caller gets the
// answer. It must be safe for concurrent use and fast.
type Observer interface {
	ObserveStorage(Observation)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Observation)

// ObserveStorage implements Observer.
func (f ObserverFunc) ObserveStorage(o Observation) { f(o) }

// Bucket reports its operations to an Observer.
type Bucket struct {
	inner    storage.Bucket
	observer Observer
}

var _ storage.Bucket = (*Bucket)(nil)

// New decorates inner.
func New(inner storage.Bucket, observer Observer) *Bucket {
	return &Bucket{inner: inner, observer: observer}
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	start := time.Now()
	o, err := b.inner.Get(ctx, key)
	b.report(storage.OpGet, key, start, len(o.Data), err)
	return o, err
}

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	start := time.Now()
	w := b.inner.PutIfAbsent(ctx, key, data)
	b.reportWrite(storage.OpPutIfAbsent, key, start, len(data), w)
	return w
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	start := time.Now()
	w := b.inner.PutIfMatch(ctx, key, data, v)
	b.reportWrite(storage.OpPutIfMatch, key, start, len(data), w)
	return w
}

// List implements storage.Bucket. The duration includes the callbacks.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	start := time.Now()
	listed := 0
	err := b.inner.List(ctx, prefix, func(i storage.Info) bool {
		listed++
		return fn(i)
	})
	b.observer.ObserveStorage(Observation{
		Op: storage.OpList, Key: prefix, Result: resultOf(err, Failed), Listed: listed, Duration: time.Since(start), Err: err,
	})
	return err
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	start := time.Now()
	err := b.inner.Delete(ctx, key)
	b.report(storage.OpDelete, key, start, 0, err)
	return err
}

// DeleteBatch implements storage.BatchDeleter. A batch is one operation, whose key is its first.
func (b *Bucket) DeleteBatch(ctx context.Context, keys []string) map[string]error {
	batches, ok := b.inner.(storage.BatchDeleter)
	if !ok || len(keys) == 0 {
		return storage.DeleteEach(ctx, b, keys)
	}
	start := time.Now()
	failed := batches.DeleteBatch(ctx, keys)
	var err error
	for _, err = range failed {
		break
	}
	b.report(storage.OpDelete, keys[0], start, 0, err)
	return failed
}

// Close implements storage.Bucket.
func (b *Bucket) Close() error { return b.inner.Close() }

func (b *Bucket) report(op storage.Op, key string, start time.Time, bytes int, err error) {
	b.observer.ObserveStorage(Observation{
		Op: op, Key: key, Result: resultOf(err, Failed), Bytes: bytes, Duration: time.Since(start), Err: err,
	})
}

func (b *Bucket) reportWrite(op storage.Op, key string, start time.Time, bytes int, w storage.Write) {
	result := Committed
	switch w.Outcome {
	case storage.Conflict:
		result = Conflict
	case storage.Unknown:
		result = resultOf(w.Err, Unknown)
	}
	b.observer.ObserveStorage(Observation{
		Op: op, Key: key, Result: result, Bytes: bytes, Duration: time.Since(start), Err: w.Err,
	})
}

func resultOf(err error, otherwise Result) Result {
	switch {
	case err == nil && otherwise == Failed:
		return OK
	case errors.Is(err, storage.ErrNotFound):
		return NotFound
	case errors.Is(err, storage.ErrThrottled):
		return Throttled
	case errors.Is(err, context.Canceled) && otherwise == Failed:
		return Cancelled
	default:
		return otherwise
	}
}
