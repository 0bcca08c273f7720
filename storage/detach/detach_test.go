package detach_test

import (
	"context"
	"errors"
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

func TestCallsReturnWhenTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hung{mem.New(), make(chan struct{})}
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
