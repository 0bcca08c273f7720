// Package sleep waits for a while, or until a context ends. The SDK has its own, because its module
// does not require the one of the program.
package sleep

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// For waits for d, if it is positive, and reports whether ctx is still active.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// Pauses returns pauses that double from first to most, each longer or shorter by up to half of it.
func Pauses(first, most time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: first, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: most}
}

// Wake lets the receiver of ch, which has room for one, continue now or when it next receives. It never blocks.
func Wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
