package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
	"osqueue/storage"
)

// boundBucket bounds every request to a bucket. It ends the whole command when no
// request has succeeded for twice that time, because the retries of its callers are
// unbounded. It is safe for concurrent use.
type boundBucket struct {
	storage.Bucket
	name    string
	timeout time.Duration
	giveUp  context.CancelCauseFunc
	traffic *traffic

	mu    sync.Mutex
	since time.Time // of the first request that failed, and all after it; zero: the last one did not
}

// silentBucketError reports that a bucket does not answer.
type silentBucketError struct {
	name string
	took time.Duration
	last error
}

func (e *silentBucketError) Error() string {
	return fmt.Sprintf("%s does not answer (gave up after %s; see --timeout): %v", e.name, view.Short(e.took), e.last)
}

func (e *silentBucketError) Unwrap() error { return e.last }

// late adds the time limit of the request to a timeout error. The error of a driver only
// says that the deadline has passed.
func (b *boundBucket) late(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer within %s (--timeout): %w", view.Short(b.timeout), err)
}

// heard records how a request that began at began ended.
func (b *boundBucket) heard(began time.Time, err error) {
	b.traffic.requests.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.since = time.Time{}
		return
	}
	if b.since.IsZero() {
		b.since = began
	}
	if took := time.Since(b.since); took >= 2*b.timeout {
		b.giveUp(&silentBucketError{b.name, took, err})
	}
}

// Get implements storage.Bucket.
func (b *boundBucket) Get(ctx context.Context, key string) (storage.Object, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	o, err := b.Bucket.Get(ctx, key)
	err = b.late(ctx, err)
	b.traffic.read.Add(int64(len(o.Data)))
	if errors.Is(err, storage.ErrNotFound) {
		b.heard(began, nil)
	} else {
		b.heard(began, err)
	}
	return o, err
}

// PutIfAbsent implements storage.Bucket.
func (b *boundBucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, data, func(ctx context.Context) storage.Write { return b.Bucket.PutIfAbsent(ctx, key, data) })
}

// PutIfMatch implements storage.Bucket.
func (b *boundBucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.put(ctx, data, func(ctx context.Context) storage.Write { return b.Bucket.PutIfMatch(ctx, key, data, v) })
}

func (b *boundBucket) put(ctx context.Context, data []byte, do func(context.Context) storage.Write) storage.Write {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	w := do(ctx)
	w.Err = b.late(ctx, w.Err)
	var err error
	if w.Outcome == storage.Unknown {
		err = errors.Join(w.Err, ctx.Err())
	} else {
		b.traffic.written.Add(int64(len(data)))
	}
	b.heard(began, err)
	return w
}

// List implements storage.Bucket. It is bounded from one key to the next.
func (b *boundBucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(b.timeout, func() { cancel(context.DeadlineExceeded) })
	defer idle.Stop()
	err := b.Bucket.List(ctx, prefix, func(i storage.Info) bool {
		idle.Reset(b.timeout)
		return fn(i)
	})
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s (--timeout): %w", view.Short(b.timeout), err)
	}
	b.heard(began, err)
	return err
}

// Delete implements storage.Bucket.
func (b *boundBucket) Delete(ctx context.Context, key string) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	err := b.late(ctx, b.Bucket.Delete(ctx, key))
	b.heard(began, err)
	return err
}

// traffic counts requests and bytes of buckets. It is safe for concurrent use.
type traffic struct {
	requests, read, written atomic.Int64
}

// progressInterval is the interval at which a long command prints its progress.
const progressInterval = 5 * time.Second

// tell writes the figures to w at the given interval, until ctx ends.
func (t *traffic) tell(ctx context.Context, w io.Writer, every time.Duration) {
	for begin := time.Now(); sleep.For(ctx, every); {
		_ = view.Write(w, t.line(time.Since(begin))) // an error is ignored: the figures only inform
	}
}

func (t *traffic) line(d time.Duration) string {
	text := fmt.Sprintf("%s: %d requests, %s read", view.Short(d.Round(time.Second)), t.requests.Load(), view.BytesText(t.read.Load()))
	if n := t.written.Load(); n > 0 {
		text += ", " + view.BytesText(n) + " written"
	}
	return text + "\n"
}
