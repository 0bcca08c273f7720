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

// ErrTaken is wrapped when another file has the name of the one to be put.
var ErrTaken = errors.New("another file has that name")

// Put puts a job into the box, and returns nil once it is certain that it is there,
// or was. What is not known, or was refused by a rate limit, is tried again until ctx
// ends. A file that is there already must be the same; else it is ErrTaken. Whether
// the job is one that the queue will take is not looked at.
func Put(ctx context.Context, bucket storage.Bucket, id string, data []byte) error {
	key, err := Key(id)
	if err != nil {
		return err
	}
	_, err = put(ctx, bucket, key, data)
	return err
}

// Pauses between attempts: they grow from the first to the long one.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
)

// put creates an object and settles an outcome that is not known. created is false
// if the same bytes were there before.
func put(ctx context.Context, bucket storage.Bucket, key string, data []byte, o ...backoff.RetryOption) (created bool, err error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longPause
	o = append([]backoff.RetryOption{backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0)}, o...)
	a := attempt{bucket: bucket, key: key, data: data}
	created, err = backoff.Retry(ctx, func() (bool, error) { return a.once(ctx) }, o...)
	if err == nil {
		return created, nil
	}
	if ctx.Err() != nil && a.last != nil { // err is no more than that
		err = fmt.Errorf("%w; before: %w", err, a.last)
	}
	return false, fmt.Errorf("put %s into the bucket: %w", key, err)
}

// attempt is a put that is under way.
type attempt struct {
	bucket storage.Bucket
	key    string
	data   []byte
	open   bool  // an earlier try may have been applied
	last   error // that was not ctx's
}

// once tries to put. An error that is not permanent leaves it open.
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
		err = errors.New("the outcome is not known")
	}
	if errors.Is(err, storage.ErrInvalidKey) {
		return false, backoff.Permanent(err)
	}
	a.note(ctx, err)
	return false, err
}

// note keeps the last error that says more than that the time is over.
func (a *attempt) note(ctx context.Context, err error) {
	if ctx.Err() == nil {
		a.last = err
	}
}

// look finds out whose the object is that is there. If there is none any more it was
// taken out of the box, or the store refused one of two writes at a time: putting it
// once more costs nothing, for the leader knows a job that it has taken.
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
