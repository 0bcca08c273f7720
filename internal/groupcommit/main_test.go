package groupcommit_test

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/groupcommit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is an effect that records what it is given. Each batch can be held
// in flight until the test lets it go.
type ledger struct {
	mu      sync.Mutex
	batches [][]int

	started chan int      // one signal a start, the batch's size; nil: none
	gate    chan struct{} // one token lets one batch end; nil: none is held
	fail    error
}

func (l *ledger) start(ctx context.Context, batch []int) groupcommit.Wait[int] {
	l.mu.Lock()
	l.batches = append(l.batches, append([]int(nil), batch...))
	l.mu.Unlock()
	if l.started != nil {
		l.started <- len(batch)
	}
	return func() ([]int, error) {
		if l.gate != nil {
			select {
			case <-l.gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if l.fail != nil {
			return nil, l.fail
		}
		return tenfold(batch), nil
	}
}

func (l *ledger) seen() [][]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]int(nil), l.batches...)
}

// tenfold makes results that betray a mix-up between callers.
func tenfold(batch []int) []int {
	results := make([]int, len(batch))
	for i, item := range batch {
		results[i] = 10 * item
	}
	return results
}

// answer is the result of one call of Do.
type answer struct {
	item, result int
	err          error
}

// doAll calls Do for each item in a goroutine of its own, one after the other:
// an item is admitted before the next call is made.
func doAll(t *testing.T, b *groupcommit.Batcher[int, int], items ...int) <-chan answer {
	t.Helper()
	answers := make(chan answer, len(items))
	for _, item := range items {
		before, _ := b.Pending()
		go func() {
			result, err := b.Do(context.Background(), item)
			answers <- answer{item, result, err}
		}()
		until(t, func() bool { now, _ := b.Pending(); return now > before })
	}
	return answers
}
