package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"osqueue/storage"
)

// ErrTaken is wrapped by the error of Put if another file has the name.
var ErrTaken = errors.New("another file in the inbox has that name")

// Put puts a job into the inbox, and returns nil once it is certain that the file is there
// or was there. It repeats an attempt that was throttled or has an unknown outcome until
// ctx ends. An existing file must have the same bytes; otherwise the error wraps ErrTaken.
// Put does not check whether the queue will accept the job.
func Put(ctx context.Context, bucket storage.Bucket, id string, data []byte) error {
	key, err := Key(id)
	if err != nil {
		return err
	}
	_, err = put(ctx, bucket, key, data)
	return err
}

// Pauses between attempts grow from firstPause to longPause.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
)

// put creates an object and settles an unknown outcome. created is false if the same bytes
// were there before.
func put(ctx context.Context, bucket storage.Bucket, key string, data []byte, o ...backoff.RetryOption) (created bool, err error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longPause
	o = append([]backoff.RetryOption{backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0)}, o...)
	a := attempt{bucket: bucket, key: key, data: data}
	created, err = backoff.Retry(ctx, func() (bool, error) { return a.once(ctx) }, o...)
	if err == nil {
		return created, nil
	}
	if ctx.Err() != nil && a.last != nil { // err only reports the end of ctx
		err = fmt.Errorf("%w; the error before: %w", err, a.last)
	}
	return false, fmt.Errorf("put %s into the bucket: %w", key, err)
}

// attempt is a put in progress.
type attempt struct {
	bucket storage.Bucket
	key    string
	data   []byte
	open   bool  // an earlier try may have been applied
	last   error // without errors of ctx
}

// once tries to put the object. The caller repeats it unless the error is permanent.
func (a *attempt) once(ctx context.Context) (created bool, err error) {
	w := a.bucket.PutIfAbsent(ctx, a.key, a.data)
	switch w.Outcome {
	case storage.Committed:
		return true, nil
	case storage.Conflict:
		created, err = a.look(ctx)
		a.note(ctx, err)
		return created, err
	}
	a.open = a.open || !errors.Is(w.Err, storage.ErrThrottled)
	if err = w.Err; err == nil {
		err = errors.New("the outcome of the write is unknown")
	}
	if errors.Is(err, storage.ErrInvalidKey) {
		return false, backoff.Permanent(err)
	}
	a.note(ctx, err)
	return false, err
}

// note records the last error that is not caused by the end of ctx.
func (a *attempt) note(ctx context.Context, err error) {
	if ctx.Err() == nil {
		a.last = err
	}
}

// look reads the existing object and compares it. If the object does not exist any more,
// either the leader has taken it, or the store refused one of two concurrent writes. In
// both cases another put is safe, because the leader recognizes a job that it has taken.
func (a *attempt) look(ctx context.Context) (created bool, err error) {
	o, err := a.bucket.Get(ctx, a.key)
	switch {
	case err != nil:
		return false, err
	case !bytes.Equal(o.Data, a.data):
		return false, backoff.Permanent(ErrTaken)
	}
	return a.open, nil
}
