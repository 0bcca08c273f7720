package limit

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrOver means that the budget is used up. The request was not carried out; it can be
// sent again after a moment.
var ErrOver = errors.New("too many bytes of requests and answers are in memory; retry after a moment")

// DefaultBytes is the default budget. 8192 requests that wait over streams take 128 MiB of it.
const DefaultBytes = 136 << 20

// smallBytes are the bytes of a request that cost no more than its connection: small requests are
// served also while large ones have used up the budget.
const smallBytes = 4 << 10

// Budget is a number of bytes that may be in memory. Its methods are safe for concurrent
// use. A nil Budget has no bound.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Add counts n bytes more, even if the budget does not have them, or -n bytes less: for bytes that
// another bound limits. The caller subtracts what it has added.
func (b *Budget) Add(n int64) {
	if b != nil {
		b.used.Add(n)
	}
}

// Hold returns a hold on the budget that has taken nothing.
func (b *Budget) Hold() Hold { return Hold{budget: b} }

// Hold counts the bytes that one request has taken of a budget. Only one goroutine may
// use it at a time. It must be released.
type Hold struct {
	budget *Budget
	taken  int64
}

// Take takes n bytes more, or returns ErrOver. A hold always gets its first smallBytes.
func (h *Hold) Take(n int) error {
	if h.budget == nil {
		return nil
	}
	if h.budget.used.Add(int64(n)) > h.budget.limit && h.taken+int64(n) > smallBytes {
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

// Give returns n of the taken bytes to the budget.
func (h *Hold) Give(n int) { h.Force(-n) }

// Release returns the taken bytes to the budget.
func (h *Hold) Release() {
	if h.taken != 0 {
		h.budget.used.Add(-h.taken)
		h.taken = 0
	}
}

// ReadAll reads r to its end. Memory is taken from the budget before it is allocated, because the
// bytes for it may never arrive. It returns what it has read with the error of r, and nothing with
// ErrOver.
func (h *Hold) ReadAll(r io.Reader) ([]byte, error) {
	var b []byte
	for {
		if len(b) == cap(b) {
			more := max(len(b), smallBytes)
			if err := h.Take(more); err != nil {
				return nil, err
			}
			b = append(make([]byte, 0, len(b)+more), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
