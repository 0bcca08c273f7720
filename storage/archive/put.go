package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"osqueue/storage"
)

// The pause between attempts grows from the first of these to the last.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 5 * time.Second
)

func pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstPause, longPause
	return b
}

// Put writes an object under a key that no other object has, and returns nil once the object is
// certain to be in the bucket. If the result is unknown, or a rate limit refused the request,
// Put tries again with the same key and bytes until ctx ends: an attempt that arrives late does
// no harm. An object that exists already must be equal.
func Put(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	if err := storage.ValidateWrite(key, data); err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = putOnce(ctx, bucket, key, data)
		return struct{}{}, last
	}, backoff.WithBackOff(pauses()), backoff.WithMaxElapsedTime(0))
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && last != nil && !errors.Is(last, err) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return fmt.Errorf("write %q: %w", key, err)
}

// putOnce makes one attempt. After an error that is not permanent the result is unknown.
func putOnce(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	w := bucket.PutIfAbsent(ctx, key, data)
	switch {
	case w.Outcome == storage.Committed:
		return nil
	case w.Outcome == storage.Conflict:
		return sameThere(ctx, bucket, key, data)
	case errors.Is(w.Err, storage.ErrInvalidKey):
		return backoff.Permanent(w.Err)
	case w.Err == nil:
		return errors.New("the outcome of the write of the object is unknown")
	}
	return w.Err
}

// sameThere checks that the existing object equals the one to be written.
func sameThere(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	o, err := bucket.Get(ctx, key)
	if err == nil && !bytes.Equal(o.Data, data) {
		// The answer may have been corrupted on the way: read once more.
		if o, err = bucket.Get(ctx, key); err == nil && !bytes.Equal(o.Data, data) {
			return backoff.Permanent(errors.New("another object has that key"))
		}
	}
	return err
}
