package inbox

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

func TestPut(t *testing.T) {
	b := mem.New()
	if err := Put(t.Context(), b, "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if o, err := b.Get(t.Context(), "inbox/a.json"); err != nil || string(o.Data) != "x" {
		t.Fatalf("%q, %v", o.Data, err)
	}
	if err := Put(t.Context(), b, "a", []byte("x")); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := Put(t.Context(), b, "a", []byte("y")); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "inbox/a.json") {
		t.Errorf("another one: %v", err)
	}
	if err := Put(t.Context(), b, "a", []byte("y")); strings.Count(err.Error(), ErrTaken.Error()) != 1 {
		t.Errorf("it is said twice: %v", err)
	}
	for _, id := range []string{"", ".", "..", ".a", "a/b", "rejected/a", "a b", "ä", strings.Repeat("x", 200), "a\x00"} {
		if err := Put(t.Context(), b, id, nil); !errors.Is(err, storage.ErrInvalidKey) && (err == nil || !strings.Contains(err.Error(), "slashes")) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if n := keysOf(t, b); n != 1 {
		t.Errorf("%d objects", n)
	}
}

// TestPutSaysWhatFailed checks that after a timeout the error contains the failure before
// it.
func TestPutSaysWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fault.New(mem.New(), 1)
		defer b.Close()
		b.Inject(fault.Rule{Kind: fault.LoseRequest, Times: 2})
		b.Inject(fault.Rule{Kind: fault.Stall})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := Put(ctx, b, "a", []byte("x"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%v", err)
		}
		if n := strings.Count(err.Error(), context.DeadlineExceeded.Error()); n != 1 {
			t.Errorf("it says %d times that the time was over: %v", n, err)
		}
	})
}

func keysOf(t *testing.T, b storage.Bucket) (n int) {
	err := b.List(t.Context(), "", func(storage.Info) bool {
		n++
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// TestPutSettles causes every kind of failure at the first attempts.
func TestPutSettles(t *testing.T) {
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.LoseAnswer, fault.DeliverLate, fault.Throttle, fault.Slow} {
		for _, ops := range [][]storage.Op{{storage.OpPutIfAbsent}, {storage.OpPutIfAbsent, storage.OpGet}} {
			synctest.Test(t, func(t *testing.T) {
				b := fault.New(mem.New(), 1)
				defer b.Close()
				rule := b.Inject(fault.Rule{Kind: kind, Ops: ops, Times: 3, Delay: time.Second})
				if err := Put(t.Context(), b, "a", []byte("x")); err != nil || rule.Hits() == 0 {
					t.Errorf("%s of %v: %v after %d hits", kind, ops, err, rule.Hits())
				}
				time.Sleep(time.Minute)
				rule.Stop()
				if o, err := b.Get(t.Context(), "inbox/a.json"); err != nil || string(o.Data) != "x" {
					t.Errorf("%s: %q, %v", kind, o.Data, err)
				}
			})
		}
	}
}

// TestPutThatIsNotThere has an attempt with an unknown outcome, then a conflict, and then
// no object. The leader has taken the file since, or it never arrived: only another attempt
// gives certainty.
func TestPutThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		b := fault.New(inner, 1)
		defer b.Close()
		b.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfAbsent}, Times: 1})
		b.Inject(fault.Rule{Kind: fault.Reject, Ops: []storage.Op{storage.OpPutIfAbsent}, Times: 1})
		if err := Put(t.Context(), b, "a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		key, _ := Key("a")
		if o, err := inner.Get(t.Context(), key); err != nil || string(o.Data) != "x" {
			t.Errorf("%q, %v", o.Data, err)
		}
	})
}

// TestPutGivesUpWithTheContext checks that Put ends with the context and returns the last
// failure.
func TestPutGivesUpWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fault.New(mem.New(), 1)
		defer b.Close()
		b.Inject(fault.Rule{Kind: fault.LoseRequest})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Put(ctx, b, "a", []byte("x"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%v", err)
		}
	})
}
