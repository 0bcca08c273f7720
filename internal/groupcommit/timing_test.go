package groupcommit_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/groupcommit"
)

// clocked is an effect that notes when its batches start, on the bubble's
// clock, and takes a fixed time.
type clocked struct {
	epoch  time.Time
	takes  time.Duration
	mu     sync.Mutex
	starts []time.Duration
	sizes  []int
}

func (c *clocked) start(_ context.Context, batch []int) groupcommit.Wait[int] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts = append(c.starts, time.Since(c.epoch))
	c.sizes = append(c.sizes, len(batch))
	return func() ([]int, error) {
		time.Sleep(c.takes)
		return tenfold(batch), nil
	}
}

func (c *clocked) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.starts)
}

func (c *clocked) check(t *testing.T, starts []time.Duration, sizes []int) {
	t.Helper()
	if !reflect.DeepEqual(c.starts, starts) || !reflect.DeepEqual(c.sizes, sizes) {
		t.Errorf("starts %v with %v items, want %v with %v", c.starts, c.sizes, starts, sizes)
	}
}

const ms = time.Millisecond

// at calls Do at the given moments of the bubble's clock, item i at the i-th.
func at(t *testing.T, b *groupcommit.Batcher[int, int], moments ...time.Duration) {
	t.Helper()
	for i, moment := range moments {
		go func() {
			time.Sleep(moment)
			if result, err := b.Do(context.Background(), i); result != 10*i || err != nil {
				t.Errorf("item %d: %d, %v", i, result, err)
			}
		}()
	}
}

func TestEmptyBufferMeansNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now(), takes: 10 * ms}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start})
		at(t, b, 0, 100*ms, 105*ms, 107*ms, 300*ms)
		time.Sleep(time.Second)
		b.Close()
		c.check(t, []time.Duration{0, 100 * ms, 110 * ms, 300 * ms}, []int{1, 1, 2, 1})
	})
}

func TestPipelineStartsInOrderAndOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now(), takes: 100 * ms}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start, MaxInFlight: 3})
		at(t, b, 0, 10*ms, 20*ms, 30*ms, 40*ms)
		time.Sleep(50 * ms)
		synctest.Wait()
		if items, _ := b.Pending(); c.count() != 3 || items != 2 {
			t.Errorf("%d starts, %d items pending", c.count(), items)
		}
		time.Sleep(time.Second)
		b.Close()
		c.check(t, []time.Duration{0, 10 * ms, 20 * ms, 100 * ms}, []int{1, 1, 1, 2})
	})
}

// TestContention runs on the real scheduler what the property test simulates:
// many callers, some of which give up at awkward moments, and a close in the
// middle. Its worth is under the race detector.
func TestContention(t *testing.T) {
	const callers, calls = 32, 300
	var started, answered, unknown, refused atomic.Int64
	b := groupcommit.New(groupcommit.Config[int, int]{
		Start: func(_ context.Context, batch []int) groupcommit.Wait[int] {
			started.Add(int64(len(batch)))
			return func() ([]int, error) { return tenfold(batch), nil }
		},
		MaxItems: 8, MaxInFlight: 3, MaxPendingItems: 24,
	})
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range calls {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+(caller*i)%50)*time.Microsecond)
				item := caller*calls + i
				result, err := b.Do(ctx, item)
				cancel()
				switch {
				case err == nil && result == 10*item:
					answered.Add(1)
				case errors.Is(err, groupcommit.ErrUnknown):
					unknown.Add(1)
				case errors.Is(err, groupcommit.ErrNotStarted):
					refused.Add(1)
				default:
					t.Errorf("item %d: %d, %v", item, result, err)
				}
			}
		})
	}
	until(t, func() bool { return answered.Load()+unknown.Load()+refused.Load() > callers*calls/2 })
	b.Close()
	wg.Wait()
	if got := answered.Load() + unknown.Load(); got != started.Load() {
		t.Errorf("%d answered, %d unknown, %d started", answered.Load(), unknown.Load(), started.Load())
	}
}
