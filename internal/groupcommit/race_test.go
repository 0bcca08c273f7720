package groupcommit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/internal/groupcommit"
)

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
