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

// New decorates inner. observe is called after each operation and before its caller gets the
// answer. It must be safe for concurrent use and fast. The duration of a listing includes the callbacks.
func New(inner storage.Bucket, observe ...func(Observation)) *storage.Decorated {
	return storage.Decorate(inner, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		start := time.Now()
		a := next(ctx)
		o := Observation{
			Op: c.Op, Key: c.Key, Result: result(c, &a), Listed: a.Listed, Bytes: c.Bytes + len(a.Object.Data),
			Duration: time.Since(start), Err: a.Err,
		}
		for _, fn := range observe {
			fn(o)
		}
		return a
	})
}

func result(c storage.Call, a *storage.Answer) Result {
	switch {
	case a.Write.Outcome == storage.Committed:
		return Committed
	case a.Write.Outcome == storage.Conflict:
		return Conflict
	case errors.Is(a.Err, storage.ErrNotFound):
		return NotFound
	case errors.Is(a.Err, storage.ErrThrottled):
		return Throttled
	case c.Op.IsWrite():
		return Unknown
	case a.Err == nil:
		return OK
	case errors.Is(a.Err, context.Canceled):
		return Cancelled
	}
	return Failed
}
