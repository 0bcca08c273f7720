package groupcommit

import (
	"errors"
	"fmt"
)

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
