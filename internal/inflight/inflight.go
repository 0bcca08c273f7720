// Package inflight bounds the bytes of request bodies and answers that are in memory at
// one time.
//
// All handlers of a process share a Budget. A request takes bytes as its body arrives: a
// head that announces a large body takes none. A request that does not fit is refused at
// once, so that no request waits for others while it holds bytes itself.
package inflight

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrOver means that the budget is used up. The request was not carried out; it can be
// sent again after a moment.
var ErrOver = errors.New("too many bytes of requests and answers are in memory; retry after a moment")

// DefaultBytes is the default budget.
const DefaultBytes = 96 << 20

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

// Hold counts the bytes that one request has taken of a budget. Only one goroutine may
// use it at a time. It must be released.
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

// Taken returns how many bytes the hold has taken.
func (h *Hold) Taken() int64 { return h.taken }

// Force takes n bytes more, even if the budget does not have them: for an answer that
// must be sent.
func (h *Hold) Force(n int) {
	if h.budget == nil {
		return
	}
	h.budget.used.Add(int64(n))
	h.taken += int64(n)
}

// Release returns the taken bytes to the budget.
func (h *Hold) Release() {
	if h.taken != 0 {
		h.budget.used.Add(-h.taken)
		h.taken = 0
	}
}

// Reader returns a reader of r that takes the bytes that it has read. It fails with ErrOver when
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
