package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"osqueue/storage"
)

// ErrTaken is wrapped when an object of the blob's is there already with other
// content: each attempt to write needs a prefix of its own.
var ErrTaken = errors.New("another object has that key")

// Put writes an object under a key that no other object has, and returns nil once the object is
// certain to be in the bucket. If the result is unknown, or a rate limit refused the request, Put
// tries again with the same key and bytes until ctx ends: an attempt that arrives late does no
// harm. After an error the object may exist, or exist later, unless the error wraps ErrTaken.
func Put(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	if err := storage.ValidateWrite(key, data); err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	foreign := 0
	err := Retry(ctx, Forever, func() error {
		w := bucket.PutIfAbsent(ctx, key, data)
		switch {
		case w.Outcome == storage.Committed:
			return nil
		case errors.Is(w.Err, storage.ErrInvalidKey):
			return backoff.Permanent(w.Err)
		case w.Outcome == storage.Unknown:
			return fmt.Errorf("the outcome of the write is unknown: %w", w.Err)
		}
		err := compare(ctx, bucket, key, data)
		if errors.Is(err, ErrTaken) {
			if foreign++; foreign >= triesToCheck {
				return backoff.Permanent(err)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	return nil
}

// compare returns nil if the object has that content: then it is a write of ours
// whose answer was lost.
func compare(ctx context.Context, bucket storage.Bucket, key string, data []byte) error {
	o, err := bucket.Get(ctx, key)
	switch {
	case err != nil: // also if it is not there: some stores refuse when two write at once
		return fmt.Errorf("read the existing object: %w", err)
	case !bytes.Equal(o.Data, data):
		return ErrTaken
	default:
		return nil
	}
}

// Pauses between attempts: they grow from the first to the long one.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 5 * time.Second
)

// How often a read is tried before the store counts as away, and how often what came
// back is looked at before it counts as damaged.
const (
	triesToReach = 6
	triesToCheck = 3
)

// Forever is the number of tries of what only the context ends.
const Forever = 0

// Retry calls try until it succeeds, has failed so many times or for good (with
// backoff.Permanent), or ctx ends.
func Retry(ctx context.Context, tries uint, try func() error) error {
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
