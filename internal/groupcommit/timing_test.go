package groupcommit_test

import (
	"context"
	"reflect"
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
	starts []time.Duration
	sizes  []int
}

func (c *clocked) start(_ context.Context, batch []int) groupcommit.Wait[int] {
	c.starts = append(c.starts, time.Since(c.epoch))
	c.sizes = append(c.sizes, len(batch))
	return func() ([]int, error) {
		time.Sleep(c.takes)
		return tenfold(batch), nil
	}
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
		if items, _ := b.Pending(); len(c.starts) != 3 || items != 2 {
			t.Errorf("%d starts, %d items pending", len(c.starts), items)
		}
		time.Sleep(time.Second)
		b.Close()
		c.check(t, []time.Duration{0, 10 * ms, 20 * ms, 100 * ms}, []int{1, 1, 1, 2})
	})
}
