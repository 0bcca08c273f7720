package detach_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/detach"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Bucket { return detach.New(mem.New()) })
}

// hung is a bucket that knows no contexts and answers nothing until it is released.
type hung struct {
	storage.Bucket
	release chan struct{}
	closed  chan struct{} // a body was closed
}

func (h hung) Get(context.Context, string) (storage.Object, error) {
	<-h.release
	return storage.Object{}, storage.ErrNotFound
}

func (h hung) PutIfAbsent(_ context.Context, key string, data []byte) storage.Write {
	<-h.release
	return h.Bucket.PutIfAbsent(context.Background(), key, data)
}

func (h hung) List(_ context.Context, _ string, fn func(storage.Info) bool) error {
	for fn(storage.Info{}) {
		<-h.release
	}
	return nil
}

func (h hung) Delete(context.Context, string) error {
	<-h.release
	return nil
}

// PutStream reads half of the stream before it hangs.
func (h hung) PutStream(_ context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	half := make([]byte, c.Size/2)
	if _, err := io.ReadFull(r, half); err != nil {
		return storage.Write{Err: err}
	}
	<-h.release
	return h.Bucket.(storage.Streamer).PutStream(context.Background(), key, io.MultiReader(bytes.NewReader(half), r), c)
}

func (h hung) GetRange(context.Context, string, int64, int64) (io.ReadCloser, error) {
	<-h.release
	return h, nil
}

func (h hung) Stat(context.Context, string) (storage.Stat, error) { return storage.Stat{}, nil }

// Read and Close make h the body of a range, which must be closed.
func (h hung) Read([]byte) (int, error) { return 0, io.EOF }

func (h hung) Close() error {
	close(h.closed)
	return nil
}

// A write that is left behind cannot read its caller's stream any more, and so makes no object; the
// body of a read that is left behind is closed.
func TestStreamsThatAreLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hung{mem.New(), make(chan struct{}), make(chan struct{})}
		b := detach.New(h)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := b.PutStream(ctx, "k", strings.NewReader("abcd"), storage.Content{Size: 4, Sum: sha256.Sum256([]byte("abcd"))})
		if w.Outcome != storage.Unknown || !errors.Is(w.Err, context.DeadlineExceeded) {
			t.Errorf("%+v", w)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if body, err := b.GetRange(ctx, "k", 0, 1); body != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", body, err)
		}
		close(h.release)
		<-h.closed
		synctest.Wait()
		if o, err := h.Bucket.Get(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the store has %q, %v", o.Data, err)
		}
	})
}

func TestCallsReturnWhenTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hung{Bucket: mem.New(), release: make(chan struct{})}
		b := detach.New(h)
		const limit = time.Second
		began := time.Now()
		calls, listed := 0, 0
		within := func(do func(ctx context.Context) error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call %d: %v", calls, err)
			}
			calls++
		}
		within(func(ctx context.Context) error { _, err := b.Get(ctx, "k"); return err })
		within(func(ctx context.Context) error { return b.Delete(ctx, "k") })
		within(func(ctx context.Context) error {
			return b.List(ctx, "", func(storage.Info) bool { listed++; return true })
		})
		within(func(ctx context.Context) error {
			w := b.PutIfAbsent(ctx, "k", []byte("v"))
			if w.Outcome != storage.Unknown {
				t.Errorf("a write that hangs is %v", w.Outcome)
			}
			return w.Err
		})
		for calls < detach.Max {
			within(func(ctx context.Context) error { _, err := b.Get(ctx, "k"); return err })
		}
		if took := time.Since(began); took != detach.Max*(limit+detach.Grace) {
			t.Errorf("%d calls took %v", calls, took)
		}
		if w := b.PutIfAbsent(t.Context(), "other", nil); w.Outcome != storage.Unknown || !errors.Is(w.Err, storage.ErrThrottled) {
			t.Errorf("a call beside %d that hang: %+v", detach.Max, w)
		}

		close(h.release)
		synctest.Wait()
		if listed != 1 {
			t.Errorf("the listing went on after its end: %d keys", listed)
		}
		if o, err := h.Bucket.Get(t.Context(), "k"); err != nil || string(o.Data) != "v" {
			t.Errorf("the write that hung has not landed: %v", err)
		}
		if w := b.PutIfAbsent(t.Context(), "other", nil); w.Outcome != storage.Committed {
			t.Errorf("once the bucket answers: %+v", w)
		}
	})
}
