package queue

import (
	"context"
	"errors"
	"iter"
)

// inOrder calls work for each item, about n at once, and passes the results to done in
// the order of the items. After the first error, of items or of done, it takes no more
// items; it finishes the calls under way and passes their results to done, so that the
// caller knows of them.
func inOrder[T, R any](
	ctx context.Context, n int, items iter.Seq2[T, error], work func(context.Context, T) R, done func(R) error,
) error {
	results := make(chan chan R, n)
	stop := make(chan struct{})
	var itemsErr error
	go func() {
		defer close(results)
		for item, err := range items {
			if err != nil {
				itemsErr = err
				return
			}
			result := make(chan R, 1)
			select {
			case results <- result:
			case <-stop:
				return
			case <-ctx.Done():
				itemsErr = context.Cause(ctx)
				return
			}
			go func() { result <- work(ctx, item) }()
		}
	}()
	var doneErr error
	for result := range results {
		err := done(<-result)
		if err != nil && doneErr == nil {
			close(stop)
		}
		doneErr = errors.Join(doneErr, err)
	}
	return errors.Join(doneErr, itemsErr)
}

// each is a slice as a sequence that cannot fail.
func each[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
