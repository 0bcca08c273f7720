package groupcommit_test

import (
	"context"
	"errors"
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

func TestIntervalSeparatesStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now(), takes: 10 * ms}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start, Interval: 50 * ms})
		// The first finds nothing to wait for, the next two share the start that
		// the interval allows, the last comes long after and is not held back.
		at(t, b, 7*ms, 20*ms, 40*ms, 200*ms)
		time.Sleep(time.Second)
		b.Close()
		c.check(t, []time.Duration{7 * ms, 57 * ms, 200 * ms}, []int{1, 2, 1})
	})
}

func TestIntervalWithCommitsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now(), takes: 120 * ms}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start, Interval: 50 * ms, MaxInFlight: 2})
		at(t, b, 0, 10*ms, 20*ms, 110*ms)
		time.Sleep(time.Second)
		b.Close()
		// The third start has to wait for the first commit to end.
		c.check(t, []time.Duration{0, 50 * ms, 120 * ms}, []int{1, 2, 1})
	})
}

func TestDeadlineWhileTheIntervalHoldsTheItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now()}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start, Interval: 50 * ms})
		at(t, b, 0)
		time.Sleep(10 * ms)
		ctx, cancel := context.WithTimeout(context.Background(), 20*ms)
		defer cancel()
		_, err := b.Do(ctx, 1)
		if !errors.Is(err, groupcommit.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Second)
		b.Close()
		c.check(t, []time.Duration{0}, []int{1})
	})
}

func TestCloseDoesNotWaitForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now()}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start, Interval: time.Hour})
		at(t, b, 0)
		synctest.Wait()
		refused := make(chan error, 1)
		go func() { _, err := b.Do(context.Background(), 1); refused <- err }()
		synctest.Wait()
		b.Close()
		if err := <-refused; !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if time.Since(c.epoch) != 0 {
			t.Errorf("closing took %v", time.Since(c.epoch))
		}
	})
}

func TestPipelineStartsInOrderAndOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{epoch: time.Now(), takes: 100 * ms}
		b := groupcommit.New(groupcommit.Config[int, int]{Start: c.start, MaxInFlight: 3})
		at(t, b, 0, 10*ms, 20*ms, 30*ms, 40*ms)
		time.Sleep(50 * ms)
		if s := b.Stats(); s.InFlight != 3 || s.PendingItems != 2 {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(time.Second)
		b.Close()
		c.check(t, []time.Duration{0, 10 * ms, 20 * ms, 100 * ms}, []int{1, 1, 1, 2})
	})
}
