package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/mem"
)

func listed(t *testing.T, b storage.Bucket, prefix string) (all []storage.Info) {
	t.Helper()
	if err := b.List(t.Context(), prefix, func(i storage.Info) bool {
		all = append(all, i)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// newOffline is a command without streams to speak of.
func newOffline(timeout time.Duration) *offline {
	return &offline{g: &view.Globals{Out: &clitest.Buffer{}, Err: &clitest.Buffer{}}, timeout: timeout}
}

// A write that is retried without bound ends when the bucket is silent for long.
func TestOfflineGivesUpOnASilentBucket(t *testing.T) {
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.Stall} {
		b := fault.New(mem.New(), 1)
		b.Inject(fault.Rule{Kind: kind})
		err := newOffline(30*time.Millisecond).run(t.Context(), func(ctx context.Context, all *buckets) error {
			return archive.Put(ctx, all.bound("mem://it", b), "key", []byte("data"))
		})
		var silent *silentBucketError
		if !errors.As(err, &silent) || !strings.HasPrefix(err.Error(), "mem://it does not answer (gave up after ") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The error of a slow request names the flag that bounds it.
func TestOfflineTellsTheTimeout(t *testing.T) {
	b := fault.New(mem.New(), 1)
	b.Inject(fault.Rule{Kind: fault.Stall})
	for name, do := range map[string]func(context.Context, storage.Bucket) error{
		"get": func(ctx context.Context, b storage.Bucket) error { _, err := b.Get(ctx, "key"); return err },
		"list": func(ctx context.Context, b storage.Bucket) error {
			return b.List(ctx, "", func(storage.Info) bool { return true })
		},
		"delete": func(ctx context.Context, b storage.Bucket) error { return b.Delete(ctx, "key") },
		"put":    func(ctx context.Context, b storage.Bucket) error { return b.PutIfAbsent(ctx, "key", nil).Err },
		"range": func(ctx context.Context, b storage.Bucket) error {
			_, err := b.(storage.Streamer).GetRange(ctx, "key", 0, 1)
			return err
		},
		"stream": func(ctx context.Context, b storage.Bucket) error {
			return b.(storage.Streamer).PutStream(ctx, "key", strings.NewReader("x"), storage.Content{Size: 1}).Err
		},
	} {
		err := newOffline(20*time.Millisecond).run(t.Context(), func(ctx context.Context, all *buckets) error {
			return do(ctx, all.bound("mem://it", b))
		})
		if err == nil || !strings.HasPrefix(err.Error(), "no answer within 20ms (--timeout): ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One failure among answers is none, and a missing object is an answer.
func TestOfflineGoesOnWhileTheBucketAnswers(t *testing.T) {
	b := fault.New(mem.New(), 1)
	lost := b.Inject(fault.Rule{Kind: fault.LoseAnswer, Times: 3})
	o := newOffline(time.Minute)
	err := o.run(t.Context(), func(ctx context.Context, all *buckets) error {
		bound := all.bound("mem://it", b)
		if err := archive.Put(ctx, bound, "key", []byte("data")); err != nil {
			return err
		}
		if _, err := bound.Get(ctx, "other"); !errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("get: %w", err)
		}
		if got := listed(t, bound, ""); len(got) != 1 {
			return fmt.Errorf("%v", got)
		}
		if w := bound.PutIfMatch(ctx, "key", nil, "no version"); w.Outcome != storage.Conflict {
			return fmt.Errorf("%+v", w)
		}
		if line := all.traffic.line(3 * time.Second); !strings.Contains(line, "requests") || !strings.HasPrefix(line, "3s: ") {
			return errors.New(line)
		}
		return bound.Delete(ctx, "key")
	})
	if err != nil || lost.Hits() == 0 {
		t.Errorf("%v after %d", err, lost.Hits())
	}
}

// The body of a range is read after its request has ended.
func TestTheTimeoutDoesNotCutStreams(t *testing.T) {
	b := mem.New()
	b.PutIfAbsent(t.Context(), "key", []byte("data"))
	err := newOffline(time.Minute).run(t.Context(), func(ctx context.Context, all *buckets) error {
		body, err := all.bound("mem://it", b).(storage.Streamer).GetRange(ctx, "key", 1, 2)
		if err != nil {
			return err
		}
		defer body.Close()
		if data, err := io.ReadAll(body); err != nil || string(data) != "at" {
			return fmt.Errorf("%q, %w", data, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// still is a bucket whose ranges do not come.
type still struct{ *mem.Bucket }

type stillBody struct{ ctx context.Context }

func (b stillBody) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }

func (stillBody) Close() error { return nil }

func (still) GetRange(ctx context.Context, _ string, _, _ int64) (io.ReadCloser, error) {
	return stillBody{ctx}, nil
}

// A stream that does not move ends.
func TestTheTimeoutEndsAStillStream(t *testing.T) {
	err := newOffline(20*time.Millisecond).run(t.Context(), func(ctx context.Context, all *buckets) error {
		body, err := all.bound("mem://it", still{mem.New()}).(storage.Streamer).GetRange(ctx, "key", 0, 9)
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.ReadAll(body)
		return err
	})
	if err == nil || !strings.HasPrefix(err.Error(), "no answer within 20ms (--timeout): ") {
		t.Error(err)
	}
}

func TestTrafficIsTold(t *testing.T) {
	var tr traffic
	tr.requests.Add(3)
	tr.read.Add(2 << 20)
	var out clitest.Buffer
	stop := view.Background(t.Context(), func(ctx context.Context) { tr.tell(ctx, &out, time.Millisecond) })
	for !strings.Contains(out.String(), "3 requests, 2MiB read\n") {
		<-time.After(time.Millisecond)
	}
	stop()
}
