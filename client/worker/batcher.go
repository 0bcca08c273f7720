package worker

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"osqueue/client"
)

// The bounds of one call with reports. The server accepts a body of 1 MiB. The difference is
// for the fields around a result, and for its escapes.
const (
	batchJobs  = client.MaxBatchJobs
	batchBytes = 512 << 10
)

// batcher combines the reports of many goroutines into few calls. If no call is
// running, a report is sent at once; reports that arrive during a call are sent
// together in the next one. The batcher has no goroutine: the first waiting caller
// sends the next call for all.
type batcher[T any] struct {
	send func(items []T) ([]client.Beat, error) // returns the answers in the order of items
	size func(T) int                            // returns the approximate number of bytes of an item
	gap  func() time.Duration                   // returns the time between the starts of two calls; nil: none

	began time.Time // start of the last call; owned by the goroutine that sends the next one

	mu      sync.Mutex
	busy    bool // a goroutine sends a call, or is about to
	waiting []*batched[T]
}

// batched is an item that waits for its answer.
type batched[T any] struct {
	item T
	err  error
	turn chan bool // true: make the next call; false: answered
}

// do sends an item, together with others, and returns its result.
func (b *batcher[T]) do(item T) error {
	e := &batched[T]{item: item, turn: make(chan bool, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, e)
	if !b.busy {
		b.busy = true
		e.turn <- true
	}
	b.mu.Unlock()
	if <-e.turn {
		b.lead()
	}
	return e.err
}

// lead makes one call for the waiting callers, of which it is the first, and hands over to the
// first caller that arrived during the call.
func (b *batcher[T]) lead() {
	b.keepApart()
	batch := b.next()
	items := make([]T, len(batch))
	for i, e := range batch {
		items[i] = e.item
	}
	errs := deliver(items, b.send)
	b.mu.Lock()
	if len(b.waiting) > 0 {
		b.waiting[0].turn <- true
	} else {
		b.busy, b.waiting = false, nil // or its array would keep the last reports
	}
	b.mu.Unlock()
	for i, e := range batch {
		e.err = errs[i]
		if i > 0 {
			e.turn <- false
		}
	}
}

// keepApart waits until the gap after the previous call is over, or is not needed any more.
func (b *batcher[T]) keepApart() {
	if b.gap == nil {
		return
	}
	for left := b.gap() - time.Since(b.began); left > 0; left = b.gap() - time.Since(b.began) {
		time.Sleep(min(left, time.Millisecond))
	}
	b.began = time.Now()
}

// next takes as many items as fit in one call, and at least one.
func (b *batcher[T]) next() []*batched[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	for ; n < min(len(b.waiting), batchJobs); n++ {
		if bytes += b.size(b.waiting[n].item); bytes > batchBytes && n > 0 {
			break
		}
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

// deliver sends items and returns the result of each. If the cluster refuses the call, one item
// may be the cause: the halves are sent separately, so that the other items succeed.
func deliver[T any](items []T, send func([]T) ([]client.Beat, error)) []error {
	errs := make([]error, len(items))
	beats, err := send(items)
	if err == nil && len(beats) != len(items) {
		err = fmt.Errorf("the server returned %d answers to %d reports", len(beats), len(items))
	}
	switch {
	case err == nil:
		for i, b := range beats {
			errs[i] = refusalOf(b)
		}
	case len(items) > 1 && refused(err) && !denied(err):
		half := len(items) / 2
		copy(errs, deliver(items[:half], send))
		copy(errs[half:], deliver(items[half:], send))
	default:
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// refusalOf converts the answer to one of several reports to an error.
func refusalOf(b client.Beat) error {
	if b.Tag == "" {
		return nil
	}
	return &client.Error{
		Op: "report", Status: http.StatusConflict, Tag: b.Tag, Committed: client.CommittedNo, Message: b.Tag,
	}
}

// refused reports whether a repetition does not help: the cluster has refused the request
// itself, or the client has refused it before sending, or the client is closed.
func refused(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && (e.Refused() || e.Invalid()) || errors.Is(err, client.ErrClosed)
}

// denied reports whether a node does not know the token, or the token may not do this. Another node, or
// a moment later the same, may see it otherwise: after a restart a node may not have the keys of an issuer yet.
func denied(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}
