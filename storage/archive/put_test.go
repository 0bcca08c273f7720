package archive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
)

// TestPut writes one object with each fault at each of its first operations.
func TestPut(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{
		fault.LoseRequest, fault.LoseAnswer, fault.DeliverLate, fault.Throttle, fault.Slow, fault.Garble, fault.Truncate,
	} {
		for skip := range 2 {
			synctest.Test(t, func(t *testing.T) {
				bucket := fault.New(mem.New(), 1)
				defer bucket.Close()
				// The second fault makes the object be read back.
				lost := bucket.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: []storage.Op{storage.OpPutIfAbsent}, Times: 1})
				if kind != fault.Garble && kind != fault.Truncate {
					lost.Stop()
				}
				hit := bucket.Inject(fault.Rule{Kind: kind, Skip: skip, Times: 1, Delay: time.Second})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				data := []byte("some bytes that are stored")
				if err := Put(ctx, bucket, "log/x", data); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
				if skip == 0 && hit.Hits() != 1 {
					t.Errorf("%s has hit nothing", kind)
				}
				hit.Stop()
				o, err := bucket.Get(ctx, "log/x")
				if err != nil || string(o.Data) != string(data) {
					t.Errorf("%s: %q, %v", kind, o.Data, err)
				}
			})
		}
	}
}

func TestPutThatCannotBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket := fault.New(mem.New(), 1)
		defer bucket.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(Put(ctx, bucket, "log/x", []byte("this")))
		if err := Put(ctx, bucket, "log/x", []byte("that")); err == nil || ctx.Err() != nil {
			t.Errorf("another object under the same key: %v", err)
		}
		if err := Put(ctx, bucket, "log//x", []byte("that")); !errors.Is(err, storage.ErrInvalidKey) {
			t.Errorf("a key that is none: %v", err)
		}
		bucket.Inject(fault.Rule{Kind: fault.LoseRequest})
		err := Put(ctx, bucket, "log/y", []byte("that"))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "injected") {
			t.Errorf("a bucket that is away until the end: %v", err)
		}
	})
}
