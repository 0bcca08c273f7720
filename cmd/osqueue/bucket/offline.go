package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
	stop := view.Background(ctx, func(ctx context.Context) { b.traffic.tell(ctx, o.g.Err, progressInterval) })
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

// read opens a bucket for reading. It reads a directory without its driver, because the
// driver would make its folders in it: a wrong path must stay unchanged, and a copy on a
// read-only disk must be readable.
func (b *buckets) read(ctx context.Context, bucket string) (storage.Bucket, error) {
	if dir, ok := directoryOf(bucket); ok {
		return b.bound(bucket, dirBucket{root: dir}), nil
	}
	return b.write(ctx, bucket)
}

// directoryOf returns the directory of a bucket's URL, if it has one.
func directoryOf(bucket string) (dir string, ok bool) {
	u, err := url.Parse(bucket)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.Path == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	return filepath.FromSlash(u.Path), true
}

// write opens a bucket for reading and writing.
func (b *buckets) write(ctx context.Context, bucket string) (storage.Bucket, error) {
	if view.InMemory(bucket) {
		return nil, view.Usagef("%s: a bucket in memory exists in one process only; give another bucket", bucket)
	}
	opened, err := bucketurl.Open(ctx, bucket)
	if err != nil {
		return nil, view.OpenError(err)
	}
	b.open = append(b.open, opened)
	return b.bound(bucket, opened), nil
}

func (b *buckets) bound(name string, to storage.Bucket) storage.Bucket {
	bound := &boundBucket{Bucket: to, name: name, timeout: b.timeout, giveUp: b.giveUp, traffic: &b.traffic}
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

// observe records how a request ended. It ends the whole command when none has succeeded for twice the limit.
func (b *boundBucket) observe(o metered.Observation) {
	b.traffic.requests.Add(1)
	switch o.Result {
	case metered.OK, metered.NotFound, metered.Committed, metered.Conflict:
	default:
		b.failed(o)
		return
	}
	if o.Op == storage.OpGet {
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

// within does one request. It adds the time limit to a timeout error: that of a driver only
// says that the deadline has passed.
func (b *boundBucket) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	err := do(ctx)
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer within %s (--timeout): %w", view.Short(b.timeout), err)
}

// Get implements storage.Bucket.
func (b *boundBucket) Get(ctx context.Context, key string) (o storage.Object, err error) {
	err = b.within(ctx, func(ctx context.Context) (err error) {
		o, err = b.Bucket.Get(ctx, key)
		return err
	})
	return o, err
}

// PutIfAbsent implements storage.Bucket.
func (b *boundBucket) PutIfAbsent(ctx context.Context, key string, data []byte) (w storage.Write) {
	w.Err = b.within(ctx, func(ctx context.Context) error {
		w = b.Bucket.PutIfAbsent(ctx, key, data)
		return w.Err
	})
	return w
}

// PutIfMatch implements storage.Bucket.
func (b *boundBucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) (w storage.Write) {
	w.Err = b.within(ctx, func(ctx context.Context) error {
		w = b.Bucket.PutIfMatch(ctx, key, data, v)
		return w.Err
	})
	return w
}

// Delete implements storage.Bucket.
func (b *boundBucket) Delete(ctx context.Context, key string) error {
	return b.within(ctx, func(ctx context.Context) error { return b.Bucket.Delete(ctx, key) })
}

// List implements storage.Bucket. It is bounded from one key to the next.
func (b *boundBucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
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

// dirBucket reads a directory bucket, or a copy of one. It is safe for concurrent use.
type dirBucket struct{ root string }

var errReadOnly = errors.New("the bucket is open for reading only")

// Get implements storage.Bucket.
func (d dirBucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := errors.Join(ctx.Err(), storage.ValidateKey(key)); err != nil {
		return storage.Object{}, err
	}
	data, err := d.readFile(filepath.FromSlash(key))
	if errors.Is(err, fs.ErrNotExist) {
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, d.root, storage.ErrNotFound)
	}
	return storage.Object{Data: data}, err
}

// readFile reads a regular file in the directory, and follows no link to it.
func (d dirBucket) readFile(name string) ([]byte, error) {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s in %s is not a regular file", name, d.root)
	}
	if err != nil {
		return nil, err
	}
	return root.ReadFile(name)
}

// List implements storage.Bucket. It leaves out objects that are removed meanwhile, and files whose names are not
// valid keys.
func (d dirBucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	var found []storage.Info
	start := path.Clean(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err := fs.WalkDir(os.DirFS(d.root), start, func(key string, e fs.DirEntry, err error) error {
		switch {
		case err == nil && ctx.Err() != nil:
			return ctx.Err()
		case err == nil && e.IsDir() && key != start && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case err == nil && e.Type().IsRegular() && strings.HasPrefix(key, prefix) && storage.ValidateKey(key) == nil:
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				found = append(found, storage.Info{Key: key, Size: info.Size()})
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list %q in %s: %w", prefix, d.root, err)
	}
	slices.SortFunc(found, func(a, b storage.Info) int { return strings.Compare(a.Key, b.Key) })
	for _, i := range found {
		if !fn(i) {
			break
		}
	}
	return nil
}

// PutIfAbsent implements storage.Bucket.
func (dirBucket) PutIfAbsent(context.Context, string, []byte) storage.Write {
	return storage.Write{Err: errReadOnly}
}

// PutIfMatch implements storage.Bucket.
func (dirBucket) PutIfMatch(context.Context, string, []byte, storage.Version) storage.Write {
	return storage.Write{Err: errReadOnly}
}

// Delete implements storage.Bucket.
func (dirBucket) Delete(context.Context, string) error { return errReadOnly }

// Close implements storage.Bucket.
func (dirBucket) Close() error { return nil }
