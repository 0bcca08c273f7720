package archive

import (
	"context"
	"iter"
	"sync"
)

// readAhead is how many objects are fetched while one is worked on.
const readAhead = 4

// ahead yields get's result for each item, in order, and calls get for the next items
// meanwhile. When the loop ends, ahead cancels the calls in flight and waits for them.
func ahead[T, R any](ctx context.Context, items []T, get func(context.Context, T) (R, error)) iter.Seq2[R, error] {
	type result struct {
		value R
		err   error
	}
	return func(yield func(R, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		var waiting []chan result // oldest first
		start := func() {
			out, item := make(chan result, 1), items[0]
			items, waiting = items[1:], append(waiting, out)
			running.Go(func() {
				value, err := get(ctx, item)
				out <- result{value, err}
			})
		}
		for len(items) > 0 || len(waiting) > 0 {
			for len(items) > 0 && len(waiting) <= readAhead {
				start()
			}
			r := <-waiting[0]
			waiting = waiting[1:]
			if !yield(r.value, r.err) {
				return
			}
		}
	}
}
