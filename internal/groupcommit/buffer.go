package groupcommit

import (
	"sync/atomic"
	"time"
)

// waiter is one call of Do: its item, its place in the buffer, and later its
// answer. Waiters are pooled, and their channel lives as long as they do.
type waiter[T, R any] struct {
	item T
	size int // bytes
	rank rank

	// Place in the buffer, guarded by Batcher.mu.
	prev, next *waiter[T, R]
	buffered   bool

	// settled is set by the side that decides how the call ends: the goroutine that
	// brings the answer or the caller that stops waiting for it. The side that comes
	// second puts the waiter back into the pool.
	settled atomic.Bool

	// result and err are written before done is sent to, and read after.
	result R
	err    error
	done   chan struct{} // capacity 1: the answering side never blocks

	limit *time.Timer // of the wait; nil: no call has had a limit yet
}

// limited returns a channel that gets a value after limit, or nil if limit is 0.
func (w *waiter[T, R]) limited(limit time.Duration) <-chan time.Time {
	switch {
	case limit <= 0:
		return nil
	case w.limit == nil:
		w.limit = time.NewTimer(limit)
	default:
		w.limit.Reset(limit)
	}
	return w.limit.C
}

// settle delivers the answer, unless the caller has stopped waiting. It reports whether
// it has delivered it.
func (w *waiter[T, R]) settle(result R, err error) bool {
	if !w.settled.CompareAndSwap(false, true) {
		return false
	}
	w.result, w.err = result, err
	w.done <- struct{}{}
	return true
}

// reset forgets the call and keeps the channel, which is empty by now.
func (w *waiter[T, R]) reset() {
	var (
		noItem   T
		noResult R
	)
	if w.limit != nil {
		w.limit.Stop()
	}
	w.item, w.size, w.rank = noItem, 0, ordinary
	w.result, w.err = noResult, nil
	w.settled.Store(false)
}

// buffer is a FIFO of waiters with removal from the middle. The links are in
// the waiters: nothing is allocated, and a caller that gives up leaves at the
// cost of two writes, however many wait.
type buffer[T, R any] struct {
	first, last *waiter[T, R]
	items       int
	bytes       int
}

func (b *buffer[T, R]) push(w *waiter[T, R]) {
	w.prev, w.next, w.buffered = b.last, nil, true
	if b.last == nil {
		b.first = w
	} else {
		b.last.next = w
	}
	b.last = w
	b.items++
	b.bytes += w.size
}

func (b *buffer[T, R]) remove(w *waiter[T, R]) {
	if w.prev == nil {
		b.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		b.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.buffered = nil, nil, false
	b.items--
	b.bytes -= w.size
}
