package groupcommit

import (
	"context"
	"errors"
	"fmt"

	"osqueue/internal/limit"
)

// Bounds of the buffer when Config leaves them zero: no queue is unbounded.
const (
	DefaultMaxPendingItems = 64 << 10
	DefaultMaxPendingBytes = 64 << 20
)

// Wait blocks until a started batch is decided. It returns one result an item,
// in the order of the batch, or no results (nil) when the effect has none to
// tell apart: every item then gets the zero R. An error goes to every item.
type Wait[R any] func() ([]R, error)

// Start begins to commit a batch and returns without waiting for its outcome.
// It is called by one goroutine at a time, in order; as long as it runs, no
// other batch can start. The context ends when the batcher is closed, and both
// halves must then come to an end. The batch is the callee's until its Wait
// returns; after that the slice is used again and must not be kept.
type Start[T, R any] func(ctx context.Context, batch []T) Wait[R]

// Config defines the commit and bounds the items that wait for one.
type Config[T, R any] struct {
	// Start is the effect. Required.
	Start Start[T, R]

	// Size is the weight of an item in bytes, for the two bounds in bytes. It
	// must be cheap, and give the same answer each time. Without it items weigh
	// nothing.
	Size func(item T) int

	// Urgent reports whether an item goes before others. Urgent items have a buffer of
	// their own, so the others cannot fill it. Every fourth batch begins with the
	// others. Without Urgent no item is urgent.
	Urgent func(item T) bool

	// First reports whether an item goes before all others, also before urgent ones. Such an
	// item is admitted when the buffers are full: the caller bounds how many there are. Without
	// First there are none.
	First func(item T) bool

	// MaxItems and MaxBytes bound one batch; 0 is no bound.
	MaxItems int
	MaxBytes int

	// MaxPendingItems and MaxPendingBytes bound the buffer, that is, what is
	// admitted and not started; urgent items have as much again for themselves. 0
	// means the defaults of this package.
	MaxPendingItems int
	MaxPendingBytes int

	// MaxInFlight bounds the batches that are started and not decided, and is
	// the number of goroutines. 0 means 1.
	MaxInFlight int
}

// withDefaults fills the fields that are zero. It panics for values that only a mistake
// of the programmer can cause: users do not set these fields.
func (c Config[T, R]) withDefaults() Config[T, R] {
	if c.Start == nil {
		panic("groupcommit: Config.Start is required")
	}
	if min(c.MaxItems, c.MaxBytes, c.MaxPendingItems, c.MaxPendingBytes, c.MaxInFlight) < 0 {
		panic(fmt.Sprintf("groupcommit: no bound may be negative: items %d, bytes %d, pending %d and %d bytes, in flight %d",
			c.MaxItems, c.MaxBytes, c.MaxPendingItems, c.MaxPendingBytes, c.MaxInFlight))
	}
	no := func(T) bool { return false }
	return limit.Defaults(c, Config[T, R]{
		Size: func(T) int { return 0 }, Urgent: no, First: no, MaxInFlight: 1,
		MaxPendingItems: DefaultMaxPendingItems, MaxPendingBytes: DefaultMaxPendingBytes,
	})
}

// rank says which items go before others. Each rank has a buffer of its own.
type rank uint8

const (
	ordinary rank = iota
	urgent
	first
	ranks // their number
)

func (c *Config[T, R]) rank(item T) rank {
	switch {
	case c.First(item):
		return first
	case c.Urgent(item):
		return urgent
	}
	return ordinary
}

// batchIsFull reports whether a batch of these dimensions, which is not empty,
// has no room for one more item of the given size.
func (c *Config[T, R]) batchIsFull(items, bytes, size int) bool {
	return c.MaxItems > 0 && items >= c.MaxItems ||
		c.MaxBytes > 0 && bytes+size > c.MaxBytes
}

// bufferIsFull reports whether a buffer of these dimensions has no room for
// one more item of the given size.
func (c *Config[T, R]) bufferIsFull(items, bytes, size int) bool {
	return items > 0 && (items >= c.MaxPendingItems || bytes+size > c.MaxPendingBytes)
}

// Errors of Do. ErrOverloaded, ErrClosed and a context that ended in time all
// match ErrNotStarted.
var (
	// ErrNotStarted means that the item was never given to the effect: it is
	// certain that it was not committed.
	ErrNotStarted = errors.New("groupcommit: not started")

	// ErrUnknown means that the item was given to the effect and that its
	// outcome did not become known: it may have been committed, or may yet be.
	ErrUnknown = errors.New("groupcommit: outcome unknown")

	// ErrOverloaded means that the buffer is full; try again after a while.
	ErrOverloaded = fmt.Errorf("%w: the buffer is full, try again later", ErrNotStarted)

	// ErrClosed means that the batcher takes no more items.
	ErrClosed = fmt.Errorf("%w: the batcher is closed", ErrNotStarted)
)

// withdrawn is the error of an item that left the buffer because its caller's
// context ended.
func withdrawn(cause error) error {
	return fmt.Errorf("%w: %w", ErrNotStarted, cause)
}

// abandoned is the error of an item whose caller's context ended in flight.
func abandoned(cause error) error {
	return fmt.Errorf("%w: %w", ErrUnknown, cause)
}

// miscounted reports an effect that broke its contract. The results cannot be assigned
// to items, so the outcome of each item is unknown.
func miscounted(results, items int) error {
	return fmt.Errorf("%w: the effect returned %d results for %d items", ErrUnknown, results, items)
}
