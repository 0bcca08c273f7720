package groupcommit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"osqueue/internal/groupcommit"
)

// BenchmarkNoop measures the batcher alone: the effect costs nothing.
func BenchmarkNoop(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		for _, inFlight := range []int{1, 4} {
			b.Run(fmt.Sprintf("callers=%d/inflight=%d", callers, inFlight), func(b *testing.B) {
				benchmark(b, callers, inFlight, func() {})
			})
		}
	}
}

// BenchmarkCommit500us has an effect as slow as a raft commit on a local disk.
func BenchmarkCommit500us(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		for _, inFlight := range []int{1, 4} {
			b.Run(fmt.Sprintf("callers=%d/inflight=%d", callers, inFlight), func(b *testing.B) {
				benchmark(b, callers, inFlight, func() { time.Sleep(500 * time.Microsecond) })
			})
		}
	}
}

func benchmark(b *testing.B, callers, inFlight int, commit func()) {
	wait := groupcommit.Wait[int](func() ([]int, error) {
		commit()
		return nil, nil
	})
	bt := groupcommit.New(groupcommit.Config[int, int]{
		Start:       func(context.Context, []int) groupcommit.Wait[int] { return wait },
		MaxInFlight: inFlight,
	})
	defer bt.Close()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for caller := range callers {
		share := b.N / callers
		if caller < b.N%callers {
			share++
		}
		wg.Go(func() {
			for range share {
				if _, err := bt.Do(context.Background(), 1); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
