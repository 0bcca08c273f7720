// Package inflight bounds the bytes of request bodies and answers that are in memory
// at one time.
//
// A Budget is shared by all handlers of a process. What a request takes grows with
// what has arrived: a head that announces a large body takes nothing. A request that
// does not fit is refused at once, so that nobody waits for others while it holds
// bytes itself.
package inflight

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrOver means that the budget is used up. The request was not carried out; it can be
// sent again after a moment.
var ErrOver = errors.New("too many bytes of requests and answers are in memory; retry after a moment")

// DefaultBytes is the budget if nothing else is said.
const DefaultBytes = 256 << 20

// Budget is a number of bytes that may be in memory. Its methods are safe for concurrent
// use. A nil Budget has no bound.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// New returns a budget of limit bytes.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Hold returns a hold on the budget that has taken nothing.
func (b *Budget) Hold() Hold { return Hold{budget: b} }

// Hold is what one request has taken of a budget. It is for one goroutine at a time. It
// must be released.
type Hold struct {
	budget *Budget
	taken  int64
}

// Take takes n bytes more, or returns ErrOver.
func (h *Hold) Take(n int) error {
	if h.budget == nil {
		return nil
	}
	if h.budget.used.Add(int64(n)) > h.budget.limit {
		h.budget.used.Add(-int64(n))
		return ErrOver
	}
	h.taken += int64(n)
	return nil
}

// Force takes n bytes more, whether the budget has them or not: for an answer that must
// be given.
func (h *Hold) Force(n int) {
	if h.budget == nil {
		return
	}
	h.budget.used.Add(int64(n))
	h.taken += int64(n)
}

// Release gives back what was taken.
func (h *Hold) Release() {
	if h.taken != 0 {
		h.budget.used.Add(-h.taken)
		h.taken = 0
	}
}

// Reader returns a reader of r that takes what it has read. It fails with ErrOver when
// the budget is used up.
func (h *Hold) Reader(r io.Reader) io.Reader { return &reader{hold: h, from: r} }

type reader struct {
	hold *Hold
	from io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if over := r.hold.Take(n); over != nil {
		return 0, over
	}
	return n, err
}
