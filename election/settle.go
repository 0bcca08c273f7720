package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"osqueue/internal/sleep"
	"osqueue/storage"
)

// The pauses between the attempts to settle one write. They double up to longPause.
const (
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// pause waits before the next attempt. It reports whether ctx is still valid.
func pause(ctx context.Context, attempt int) bool {
	return sleep.For(ctx, min(firstPause<<min(attempt, 10), longPause))
}

// put replaces version, or creates the object if there is none.
func put(ctx context.Context, b storage.Bucket, key string, version storage.Version, data []byte) storage.Write {
	if version == "" {
		return b.PutIfAbsent(ctx, key, data)
	}
	return b.PutIfMatch(ctx, key, data, version)
}

// notApplied reports whether a write with that error was not applied and never will be.
func notApplied(err error) bool {
	return errors.Is(err, storage.ErrThrottled) || errors.Is(err, storage.ErrInvalidKey)
}

// getSettling reads until the store answers or ctx ends.
func getSettling(ctx context.Context, b storage.Bucket, key string) (o storage.Object, found bool, err error) {
	for attempt := 0; ; attempt++ {
		if o, found, err = get(ctx, b, key); err == nil {
			return o, found, nil
		}
		if !pause(ctx, attempt) {
			return storage.Object{}, false, err
		}
	}
}

// unknown returns the error for a write that was not settled because of why.
func unknown(w storage.Write, why error) error {
	if w.Err == nil {
		return fmt.Errorf("%w: %w", ErrUnknown, why)
	}
	return fmt.Errorf("%w: %w; then: %w", ErrUnknown, w.Err, why)
}
