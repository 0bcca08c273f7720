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
// may still be applied: its outcome is storage.Unknown. The reads of a range's body are not
// calls, and wait for the driver. At most Max calls are detached;
// while so many hang, further calls are refused at once.
package detach

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"osqueue/storage"
)

// Max is the largest number of detached calls.
const Max = 64

// Grace is the time in which a driver that obeys contexts can return its own error.
const Grace = 50 * time.Millisecond

// The states of a call.
const (
	running  = iota
	ended    // the driver has returned
	detached // the caller has returned first
)

// New decorates inner.
func New(inner storage.Bucket) *storage.Decorated {
	return storage.Decorate(inner, new(calls).around)
}

// calls are the calls of one bucket.
type calls struct {
	left atomic.Int64 // detached calls that have not returned
}

func (b *calls) around(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
	if ctx.Done() == nil {
		return next(ctx)
	}
	if err := ctx.Err(); err != nil {
		return c.Refuse(err)
	}
	if b.left.Load() >= Max {
		// Wrapped, because it was not applied and never will be.
		return c.Refuse(fmt.Errorf("%d calls to the bucket hang; no further call is made until one of them returns: %w", Max, storage.ErrThrottled))
	}
	var state atomic.Int32
	done := make(chan storage.Answer, 1)
	go func() {
		done <- next(ctx)
		if !state.CompareAndSwap(running, ended) {
			b.left.Add(-1)
		}
	}()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case a := <-done:
		return a
	case <-grace.C:
	}
	b.left.Add(1)
	if !state.CompareAndSwap(running, detached) { // it has just returned
		b.left.Add(-1)
		return <-done
	}
	return c.Refuse(fmt.Errorf("the bucket did not answer in time: %w", ctx.Err()))
}
