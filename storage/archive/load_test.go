package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/blob"
)

// TestLoadWithFaults injects each kind of fault into each read.
func TestLoadWithFaults(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.Throttle, fault.Slow, fault.Garble, fault.Truncate} {
		for skip := 0; ; skip++ {
			hit := false
			synctest.Test(t, func(t *testing.T) {
				bucket := fault.New(w.copied(t.Context()).bucket, 1)
				defer bucket.Close()
				rule := bucket.Inject(fault.Rule{Kind: kind, Skip: skip, Times: 1, Delay: time.Second})
				m, err := Machine(testContext(t), bucket, w.root)
				if err != nil || m.View().Hash() != w.chain[w.root.LSN()] {
					t.Errorf("%s at read %d: %v", kind, skip, err)
				}
				hit = rule.Hits() > 0
			})
			if !hit {
				if skip < 6 {
					t.Errorf("only %d reads", skip)
				}
				break
			}
		}
	}
}

// TestLoadIsGivenUp checks that a load returns an error when the context ends, and leaves no
// goroutine behind.
func TestLoadIsGivenUp(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	for skip := range 6 {
		synctest.Test(t, func(t *testing.T) {
			bucket := fault.New(w.copied(t.Context()).bucket, 1)
			defer bucket.Close()
			bucket.Inject(fault.Rule{Kind: fault.Stall, Skip: skip})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := Machine(ctx, bucket, w.root)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrDamaged) {
				t.Errorf("stalled after %d reads: %v", skip, err)
			}
		})
	}
}

// TestBucketAway checks that an object that cannot be read does not count as damaged.
func TestBucketAway(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	synctest.Test(t, func(t *testing.T) {
		bucket := fault.New(w.copied(t.Context()).bucket, 1)
		defer bucket.Close()
		bucket.Inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: "log/"})
		_, err := Machine(testContext(t), bucket, w.root)
		if !errors.Is(err, fault.ErrInjected) || errors.Is(err, ErrDamaged) {
			t.Errorf("load: %v", err)
		}
		report, err := Verify(testContext(t), bucket, rootKey)
		if !errors.Is(err, fault.ErrInjected) || report != nil {
			t.Errorf("verify: %+v, %v", report, err)
		}
		r, err := Repair(testContext(t), bucket, rootKey, RepairOptions{Force: true})
		if !errors.Is(err, fault.ErrInjected) || r.Written {
			t.Errorf("repair: %+v, %v", r, err)
		}
	})
}

func TestAheadKeepsOrderAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		items := []int{5, 1, 4, 0, 3, 2, 9, 8, 7, 6}
		var mu sync.Mutex
		under, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			under += n
			most = max(most, under)
		}
		get := func(ctx context.Context, i int) (string, error) {
			count(1)
			defer count(-1)
			select {
			case <-time.After(time.Duration(i) * time.Second):
				return fmt.Sprint(i), nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		var got []string
		for s, err := range blob.Ahead(t.Context(), readAhead, items, get) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, s); len(got) == 7 {
				break
			}
		}
		if strings.Join(got, "") != "5140329" || most != readAhead+1 || under != 0 {
			t.Errorf("%q, at most %d at once, %d still", got, most, under)
		}
	})
}

// TestWriteCheckpointRefuses checks that a checkpoint cannot come from the future.
func TestWriteCheckpointRefuses(t *testing.T) {
	t.Parallel()
	w := fixedWorld(t.Context(), true)
	v := w.leader.r.m.View()
	after := v.LSN()
	after.Index++
	before := len(w.names())
	if _, err := WriteCheckpoint(w.ctx, w.bucket, lineage, after, v); err == nil {
		t.Error("no error")
	}
	if _, err := WriteCheckpoint(w.ctx, w.bucket, "no/key of..", fsm.LSN{}, v); !errors.Is(err, storage.ErrInvalidKey) {
		t.Errorf("a lineage that no key can have: %v", err)
	}
	if len(w.names()) != before {
		t.Error("something was written")
	}
}
