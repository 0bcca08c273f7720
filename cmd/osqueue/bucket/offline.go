package bucket

import (
	"context"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
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
	return &boundBucket{Bucket: to, name: name, timeout: b.timeout, giveUp: b.giveUp, traffic: &b.traffic}
}

func (b *buckets) close() error {
	var errs []error
	for _, c := range b.open {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
