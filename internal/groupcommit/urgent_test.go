package groupcommit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/groupcommit"
)

// Urgent items find room in a batcher that others have filled, and go before them;
// a stream of them does not keep the others out.
func TestUrgentItemsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order [][]string
		b := groupcommit.New(groupcommit.Config[string, string]{
			Start: func(_ context.Context, batch []string) groupcommit.Wait[string] {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, slices.Clone(batch))
				return func() ([]string, error) {
					time.Sleep(time.Second)
					return nil, nil
				}
			},
			Urgent:          func(s string) bool { return s[0] == 'u' },
			MaxItems:        2,
			MaxPendingItems: 6,
		})
		defer b.Close()
		var wg sync.WaitGroup
		do := func(s string) {
			wg.Go(func() {
				if _, err := b.Do(t.Context(), s); err != nil {
					t.Errorf("%s: %v", s, err)
				}
			})
			synctest.Wait()
		}
		do("n0") // in flight
		for _, s := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
			do(s)
		}
		if _, err := b.Do(t.Context(), "n7"); !errors.Is(err, groupcommit.ErrOverloaded) {
			t.Errorf("beyond the bound: %v", err)
		}
		for _, s := range []string{"u1", "u2", "u3", "u4", "u5", "u6"} {
			do(s)
		}
		if _, err := b.Do(t.Context(), "u7"); !errors.Is(err, groupcommit.ErrOverloaded) {
			t.Errorf("urgent, beyond the bound: %v", err)
		}
		if items, _ := b.Pending(); items != 12 {
			t.Errorf("%d items are pending", items)
		}
		wg.Wait()
		want := [][]string{{"n0"}, {"u1", "u2"}, {"u3", "u4"}, {"n1", "n2"}, {"u5", "u6"}, {"n3", "n4"}, {"n5", "n6"}}
		if !slices.EqualFunc(order, want, slices.Equal) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}
