package probe_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
	"osqueue/storage/metered"
	"osqueue/storage/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGoodBucket(t *testing.T) {
	ops := map[storage.Op]int{}
	var mu sync.Mutex
	inner := mem.New()
	b := metered.New(inner, func(o metered.Observation) {
		mu.Lock()
		defer mu.Unlock()
		ops[o.Op]++
	})
	if err := probe.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n := ops[storage.OpPutIfAbsent] + ops[storage.OpPutIfMatch]; n > 8 || ops[storage.OpGet] > 2 || ops[storage.OpDelete] != 1 {
		t.Errorf("the probe is not cheap: %v", ops)
	}
	mustBeEmpty(t, inner)
}

func TestManyAtOnce(t *testing.T) {
	b := mem.New()
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if err := probe.Run(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	mustBeEmpty(t, b)
}

// careless breaks one promise at a time.
type careless struct {
	storage.Bucket
	ignoreAbsent, ignoreMatch, checkFirst, refuseAll, stale bool

	mu      sync.Mutex
	barrier sync.WaitGroup // checkFirst: all racers check before any writes
	racing  int
}

func (c *careless) overwrite(ctx context.Context, key string, data []byte) storage.Write {
	for {
		if o, err := c.Bucket.Get(ctx, key); err == nil {
			if w := c.Bucket.PutIfMatch(ctx, key, data, o.Version); w.Outcome == storage.Committed {
				return w
			}
		} else if w := c.Bucket.PutIfAbsent(ctx, key, data); w.Outcome == storage.Committed {
			return w
		}
	}
}

func (c *careless) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	if c.ignoreAbsent {
		return c.overwrite(ctx, key, data)
	}
	return c.Bucket.PutIfAbsent(ctx, key, data)
}

func (c *careless) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	o, err := c.Bucket.Get(ctx, key)
	switch {
	case c.refuseAll:
		return storage.Write{Outcome: storage.Conflict}
	case c.ignoreMatch && err == nil:
		return c.overwrite(ctx, key, data)
	case c.checkFirst && err == nil && o.Version == v:
		c.mu.Lock()
		if c.racing == 0 {
			c.barrier.Add(2)
		}
		c.racing++
		if c.racing <= 2 {
			c.barrier.Done()
		}
		c.mu.Unlock()
		c.barrier.Wait()
		return c.overwrite(ctx, key, data)
	}
	return c.Bucket.PutIfMatch(ctx, key, data, v)
}

func (c *careless) Get(ctx context.Context, key string) (storage.Object, error) {
	o, err := c.Bucket.Get(ctx, key)
	if c.stale && err == nil {
		o.Data = o.Data[1:]
	}
	return o, err
}

func TestRefusesBrokenBuckets(t *testing.T) {
	for want, b := range map[string]*careless{
		"If-None-Match":                   {ignoreAbsent: true},
		"ignores If-Match":                {ignoreMatch: true},
		"does not check it atomically":    {checkFirst: true},
		"whose current version was given": {refuseAll: true},
		"a read after a write":            {stale: true},
	} {
		inner := mem.New()
		b.Bucket = inner
		err := probe.Run(t.Context(), b)
		if !errors.Is(err, probe.ErrUnsafe) || !strings.Contains(err.Error(), want) {
			t.Errorf("probe = %v, want ErrUnsafe with %q", err, want)
		}
		mustBeEmpty(t, inner)
	}
}

func TestFaultsAreNotCalledUnsafe(t *testing.T) {
	for _, kind := range []fault.Kind{fault.LoseAnswer, fault.LoseRequest, fault.Throttle} {
		for skip := range 8 {
			inner := mem.New()
			b := fault.New(inner, 1)
			i := b.Inject(fault.Rule{Kind: kind, Skip: skip, Times: 1})
			err := probe.Run(t.Context(), b)
			if i.Hits() != 1 || err == nil || errors.Is(err, probe.ErrUnsafe) {
				t.Errorf("%s at operation %d: %v after %d hits", kind, skip, err, i.Hits())
			}
			b.Close()
			mustBeEmpty(t, inner)
		}
	}
}

// A store may refuse, with 409, what it should accept: the next attempt succeeds.
func TestRefusalsAreNotCalledUnsafe(t *testing.T) {
	for skip := range 8 {
		for times := 1; times <= 4; times++ {
			inner := mem.New()
			b := fault.New(inner, 1)
			i := b.Inject(fault.Rule{Kind: fault.Reject, Skip: skip, Times: times})
			if err := probe.Run(t.Context(), b); err != nil || i.Hits() == 0 {
				t.Errorf("%d writes refused from write %d on: %v after %d hits", times, skip, err, i.Hits())
			}
			b.Close()
			mustBeEmpty(t, inner)
		}
	}
}

func TestCleansUpAfterItsContextEnded(t *testing.T) {
	inner := mem.New()
	b := fault.New(inner, 1)
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	i := b.Inject(fault.Rule{Kind: fault.Stall, Ops: []storage.Op{storage.OpGet}})
	go func() {
		if i.WaitHits(ctx, 1) == nil {
			cancel()
		}
	}()
	if err := probe.Run(ctx, b); !errors.Is(err, context.Canceled) {
		t.Fatalf("probe = %v", err)
	}
	mustBeEmpty(t, inner)
}

func mustBeEmpty(t *testing.T, b storage.Bucket) {
	t.Helper()
	err := b.List(context.Background(), "", func(i storage.Info) bool {
		t.Errorf("the probe left %q behind", i.Key)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCollect removes an object that a late write of a probe has left, when it is seen
// again.
func TestCollect(t *testing.T) {
	ctx, b := t.Context(), mem.New()
	b.PutIfAbsent(ctx, probe.Prefix+"LATE", nil)
	seen, err := probe.Collect(ctx, b, nil)
	if err != nil || len(seen) != 1 {
		t.Fatal(seen, err)
	}
	b.PutIfAbsent(ctx, probe.Prefix+"FRESH", nil)
	if seen, err = probe.Collect(ctx, b, seen); err != nil || len(seen) != 1 || !seen[probe.Prefix+"FRESH"] {
		t.Fatal(seen, err)
	}
	if _, err := b.Get(ctx, probe.Prefix+"LATE"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the old probe object is there: %v", err)
	}
	if _, err := b.Get(ctx, probe.Prefix+"FRESH"); err != nil {
		t.Error(err)
	}
}
