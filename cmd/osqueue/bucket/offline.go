package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/storage/metered"
)

// offline is the base of commands that work on buckets without a cluster. Such a command
// may take any time: only its single requests are bounded.
type offline struct {
	g       *view.Globals
	timeout time.Duration // of one request
	quiet   bool          // without progress
}

const offlineTimeout = 30 * time.Second

// bind adds the flags that such commands share, and hides global flags without meaning
// for them.
func (o *offline) bind(cmd *cobra.Command) {
	view.PositiveVar(cmd.Flags(), &o.timeout, "timeout", offlineTimeout, "how long one request to a bucket may take")
}

// run calls fn with the buckets that it opens. While fn runs for long, run prints its
// progress on stderr.
func (o *offline) run(ctx context.Context, fn func(ctx context.Context, b *buckets) error) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	b := &buckets{timeout: o.timeout, giveUp: giveUp}
	stop := view.Background(ctx, func(ctx context.Context) {
		if !o.quiet {
			b.traffic.tell(ctx, o.g.Err, progressInterval)
		}
	})
	err := errors.Join(fn(ctx, b), b.close())
	stop()
	var silent *silentBucketError
	if err != nil && errors.As(context.Cause(ctx), &silent) {
		return silent
	}
	return err
}

// buckets are the buckets that a command has opened.
type buckets struct {
	timeout time.Duration
	giveUp  context.CancelCauseFunc
	traffic traffic
	open    []io.Closer
}

// read opens a bucket for reading: a wrong path must stay unchanged, and a copy on a read-only disk must be
// readable.
func (b *buckets) read(ctx context.Context, bucket string) (storage.Bucket, error) {
	return b.opened(ctx, bucket, bucketurl.OpenReadOnly)
}

// write opens a bucket for reading and writing.
func (b *buckets) write(ctx context.Context, bucket string) (storage.Bucket, error) {
	return b.opened(ctx, bucket, bucketurl.Open)
}

func (b *buckets) opened(ctx context.Context, bucket string, open func(context.Context, string) (storage.Bucket, error)) (storage.Bucket, error) {
	if view.InMemory(bucket) {
		return nil, view.Usagef("%s: a bucket in memory exists in one process only; give another bucket", bucket)
	}
	opened, err := open(ctx, bucket)
	if err != nil {
		return nil, view.OpenError(err)
	}
	b.open = append(b.open, opened)
	return b.bound(bucket, opened), nil
}

func (b *buckets) bound(name string, to storage.Bucket) storage.Bucket {
	bound := &boundBucket{name: name, timeout: b.timeout, giveUp: b.giveUp, traffic: &b.traffic}
	bound.Decorated = storage.Decorate(to, bound.within)
	return metered.New(bound, bound.observe)
}

func (b *buckets) close() error {
	var errs []error
	for _, c := range b.open {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// boundBucket bounds every request to a bucket. It ends the whole command when no
// request has succeeded for twice that time, because the retries of its callers are
// unbounded. It is safe for concurrent use.
type boundBucket struct {
	*storage.Decorated
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

// observe records how a request ended. It ends the whole command when none has succeeded for twice the limit.
func (b *boundBucket) observe(o metered.Observation) {
	b.traffic.requests.Add(1)
	switch o.Result {
	case metered.OK, metered.NotFound, metered.Committed, metered.Conflict:
	default:
		b.failed(o)
		return
	}
	if o.Op == storage.OpGet || o.Op == storage.OpGetRange {
		b.traffic.read.Add(int64(o.Bytes))
	} else {
		b.traffic.written.Add(int64(o.Bytes))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Time{}
}

// failed records a request that has failed.
func (b *boundBucket) failed(o metered.Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		b.since = time.Now().Add(-o.Duration)
	}
	if took := time.Since(b.since); took >= 2*b.timeout {
		b.giveUp(&silentBucketError{b.name, took, o.Err})
	}
}

// within bounds a request other than a listing or a stream: those are bounded from one key or read to the next.
func (b *boundBucket) within(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
	if c.Op == storage.OpList || c.Op.Streams() {
		return next(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	a := next(ctx)
	if a.Err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.Err = b.late(a.Err)
		a.Write.Err = a.Err
	}
	return a
}

// late adds the time limit to a timeout error: that of a driver only says that the deadline has passed.
func (b *boundBucket) late(err error) error {
	return fmt.Errorf("no answer within %s (--timeout): %w", view.Short(b.timeout), err)
}

// List implements storage.Bucket.
func (b *boundBucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	i := b.idling(ctx)
	defer i.stop()
	return i.late(b.Decorated.List(i.ctx, prefix, func(info storage.Info) bool {
		i.moved()
		return fn(info)
	}))
}

// PutStream implements storage.Streamer.
func (b *boundBucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	i := b.idling(ctx)
	defer i.stop()
	w := b.Decorated.PutStream(i.ctx, key, &movingReader{r, i}, c)
	w.Err = i.late(w.Err)
	return w
}

// GetRange implements storage.Streamer.
func (b *boundBucket) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	i := b.idling(ctx)
	body, err := b.Decorated.GetRange(i.ctx, key, offset, length)
	if err != nil {
		defer i.stop()
		return nil, i.late(err)
	}
	return &movingBody{movingReader{body, i}, body}, nil
}

// idling ends a request with ctx when nothing has moved for the time limit.
type idling struct {
	b      *boundBucket
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (b *boundBucket) idling(ctx context.Context) *idling {
	i := &idling{b: b}
	i.ctx, i.cancel = context.WithCancelCause(ctx)
	i.timer = time.AfterFunc(b.timeout, func() { i.cancel(context.DeadlineExceeded) })
	return i
}

func (i *idling) moved() { i.timer.Reset(i.b.timeout) }

func (i *idling) stop() {
	i.timer.Stop()
	i.cancel(nil)
}

// late adds the time limit to the error of a request that it has ended.
func (i *idling) late(err error) error {
	if err != nil && errors.Is(context.Cause(i.ctx), context.DeadlineExceeded) {
		return i.b.late(err)
	}
	return err
}

// movingReader is a stream whose reads count as movement.
type movingReader struct {
	io.Reader
	i *idling
}

// Read implements io.Reader.
func (r *movingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.i.moved()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.i.late(err)
	}
	return n, err
}

// movingBody is the body of a range.
type movingBody struct {
	movingReader
	body io.Closer
}

// Close implements io.Closer.
func (b *movingBody) Close() error {
	b.i.stop()
	return b.body.Close()
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
