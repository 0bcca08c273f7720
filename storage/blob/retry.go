package blob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses between attempts: they grow from the first to the long one.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 5 * time.Second
)

// How often a read or a removal is tried before the store counts as away, and
// how often what came back is looked at before it counts as damaged.
const (
	triesToReach = 6
	triesToCheck = 3
)

// forever is the number of tries of what only the context ends.
const forever = 0

// retry calls try until it succeeds, has failed so many times or for good (with
// backoff.Permanent), or ctx ends.
func retry(ctx context.Context, tries uint, try func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longPause
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = try()
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(last, err):
		return last
	default:
		return fmt.Errorf("%w; the error before: %w", err, last)
	}
}
