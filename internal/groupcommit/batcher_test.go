package groupcommit_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/groupcommit"
)

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true within 10 s")
		}
	}
}

// occupied returns a batcher whose only slot holds a batch of item 0, so that
// the test decides what happens to whatever comes next.
func occupied(t *testing.T, cfg groupcommit.Config[int, int]) (*groupcommit.Batcher[int, int], *ledger, <-chan answer) {
	t.Helper()
	l := &ledger{started: make(chan int, 100), gate: make(chan struct{}, 100)}
	cfg.Start = l.start
	b := groupcommit.New(cfg)
	t.Cleanup(b.Close)
	first := make(chan answer, 1)
	go func() {
		result, err := b.Do(context.Background(), 0)
		first <- answer{0, result, err}
	}()
	<-l.started
	return b, l, first
}

func TestResultsReachTheirCallers(t *testing.T) {
	b, l, first := occupied(t, groupcommit.Config[int, int]{})
	answers := doAll(t, b, 1, 2, 3)
	l.gate <- struct{}{}
	l.gate <- struct{}{}
	if a := <-first; a.err != nil {
		t.Fatalf("first: %v", a.err)
	}
	for range 3 {
		if a := <-answers; a.err != nil || a.result != 10*a.item {
			t.Errorf("item %d: result %d, error %v", a.item, a.result, a.err)
		}
	}
	if want := [][]int{{0}, {1, 2, 3}}; !reflect.DeepEqual(l.seen(), want) {
		t.Errorf("batches %v, want %v", l.seen(), want)
	}
}

func TestBatchBounds(t *testing.T) {
	size := func(item int) int { return item }
	for name, tc := range map[string]struct {
		cfg   groupcommit.Config[int, int]
		items []int
		want  [][]int
	}{
		"items":            {groupcommit.Config[int, int]{MaxItems: 2}, []int{1, 2, 3}, [][]int{{0}, {1, 2}, {3}}},
		"bytes":            {groupcommit.Config[int, int]{MaxBytes: 10, Size: size}, []int{4, 6, 1, 9, 2}, [][]int{{0}, {4, 6}, {1, 9}, {2}}},
		"too large, alone": {groupcommit.Config[int, int]{MaxBytes: 10, Size: size}, []int{3, 50, 4}, [][]int{{0}, {3}, {50}, {4}}},
		"no bound":         {groupcommit.Config[int, int]{}, []int{5, 4, 3, 2, 1}, [][]int{{0}, {5, 4, 3, 2, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			b, l, _ := occupied(t, tc.cfg)
			answers := doAll(t, b, tc.items...)
			for range tc.want {
				l.gate <- struct{}{}
			}
			for range tc.items {
				if a := <-answers; a.err != nil {
					t.Errorf("item %d: %v", a.item, a.err)
				}
			}
			if !reflect.DeepEqual(l.seen(), tc.want) {
				t.Errorf("batches %v, want %v", l.seen(), tc.want)
			}
		})
	}
}

func TestFullBufferRefusesAtOnce(t *testing.T) {
	b, _, _ := occupied(t, groupcommit.Config[int, int]{
		MaxPendingItems: 2, MaxPendingBytes: 100, Size: func(item int) int { return item },
	})
	doAll(t, b, 90)
	if _, err := b.Do(context.Background(), 11); !errors.Is(err, groupcommit.ErrOverloaded) {
		t.Errorf("too many bytes: %v", err)
	}
	doAll(t, b, 10)
	if _, err := b.Do(context.Background(), 0); !errors.Is(err, groupcommit.ErrOverloaded) || !errors.Is(err, groupcommit.ErrNotStarted) {
		t.Errorf("too many items: %v", err)
	}
	if items, bytes := b.Pending(); items != 2 || bytes != 100 {
		t.Errorf("%d items of %d bytes are pending", items, bytes)
	}
}

func TestItemLargerThanTheBufferIsAdmittedWhenItIsEmpty(t *testing.T) {
	b, _, _ := occupied(t, groupcommit.Config[int, int]{
		MaxPendingBytes: 100, Size: func(item int) int { return item },
	})
	doAll(t, b, 1000)
	if _, bytes := b.Pending(); bytes != 1000 {
		t.Errorf("%d bytes pending, want 1000", bytes)
	}
}

func TestContextEndsWhileBuffered(t *testing.T) {
	b, l, first := occupied(t, groupcommit.Config[int, int]{})
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	doAll(t, b, 1)
	go func() { _, err := b.Do(ctx, 2); gone <- err }()
	until(t, func() bool { n, _ := b.Pending(); return n == 2 })
	answers := doAll(t, b, 3)
	cancel()
	err := <-gone
	if !errors.Is(err, groupcommit.ErrNotStarted) || !errors.Is(err, context.Canceled) || errors.Is(err, groupcommit.ErrUnknown) {
		t.Errorf("error %v", err)
	}
	l.gate <- struct{}{}
	l.gate <- struct{}{}
	<-first
	<-answers
	if want := [][]int{{0}, {1, 3}}; !reflect.DeepEqual(l.seen(), want) {
		t.Errorf("batches %v, want %v", l.seen(), want)
	}
}

func TestContextEndsInFlight(t *testing.T) {
	l := &ledger{started: make(chan int, 1), gate: make(chan struct{}, 2)}
	b := groupcommit.New(groupcommit.Config[int, int]{Start: l.start})
	t.Cleanup(b.Close)
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() { _, err := b.Do(ctx, 1); gone <- err }()
	<-l.started
	cancel()
	err := <-gone
	if !errors.Is(err, groupcommit.ErrUnknown) || !errors.Is(err, context.Canceled) || errors.Is(err, groupcommit.ErrNotStarted) {
		t.Errorf("error %v", err)
	}
	// The waiter that was left behind must not confuse the next caller.
	l.gate <- struct{}{}
	l.gate <- struct{}{}
	if result, err := b.Do(context.Background(), 7); result != 70 || err != nil {
		t.Errorf("next call: %d, %v", result, err)
	}
}

func TestContextThatHasEndedStartsNothing(t *testing.T) {
	l := &ledger{}
	b := groupcommit.New(groupcommit.Config[int, int]{Start: l.start})
	t.Cleanup(b.Close)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Do(ctx, 1); !errors.Is(err, groupcommit.ErrNotStarted) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(l.seen()) != 0 {
		t.Errorf("batches %v", l.seen())
	}
}

func TestEffectErrorGoesToEveryItem(t *testing.T) {
	b, l, _ := occupied(t, groupcommit.Config[int, int]{})
	broken := errors.New("broken")
	l.fail = broken
	answers := doAll(t, b, 1, 2, 3)
	l.gate <- struct{}{}
	l.gate <- struct{}{}
	for range 3 {
		if a := <-answers; a.err != broken || a.result != 0 { //nolint:errorlint // handed on untouched
			t.Errorf("item %d: %d, %v", a.item, a.result, a.err)
		}
	}
}

func TestEffectThatMiscounts(t *testing.T) {
	b := groupcommit.New(groupcommit.Config[int, int]{
		Start: func(context.Context, []int) groupcommit.Wait[int] {
			return func() ([]int, error) { return []int{1, 2}, nil }
		},
	})
	t.Cleanup(b.Close)
	if result, err := b.Do(context.Background(), 1); !errors.Is(err, groupcommit.ErrUnknown) || result != 0 {
		t.Errorf("%d, %v", result, err)
	}
}

func TestEffectWithoutResults(t *testing.T) {
	b := groupcommit.New(groupcommit.Config[int, string]{
		Start: func(context.Context, []int) groupcommit.Wait[string] {
			return func() ([]string, error) { return nil, nil }
		},
	})
	t.Cleanup(b.Close)
	if result, err := b.Do(context.Background(), 1); err != nil || result != "" {
		t.Errorf("%q, %v", result, err)
	}
}

func TestConfigMistakesPanic(t *testing.T) {
	start := (&ledger{}).start
	for name, cfg := range map[string]groupcommit.Config[int, int]{
		"no effect":      {},
		"negative bound": {Start: start, MaxPendingItems: -1},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("New accepted it")
				}
			}()
			groupcommit.New(cfg)
		})
	}
}

// A call with a limit ends after it: an item that was not started leaves the buffer, one that was started is unknown.
func TestDoWithinEndsAfterItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l, first := occupied(t, groupcommit.Config[int, int]{})
		start := time.Now()
		for range 2 { // the second uses the first one's memory again
			_, err := b.DoWithin(context.Background(), 1, time.Second)
			if !errors.Is(err, groupcommit.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("buffered: %v", err)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("two limits of 1 s took %v", took)
		}
		l.gate <- struct{}{}
		<-first
		_, err := b.DoWithin(context.Background(), 2, time.Second)
		if !errors.Is(err, groupcommit.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("started: %v", err)
		}
		go func() { l.gate <- struct{}{} }()
		synctest.Wait()
		go func() { l.gate <- struct{}{} }()
		if _, err := b.DoWithin(context.Background(), 3, time.Hour); err != nil {
			t.Errorf("in time: %v", err)
		}
		b.Close()
	})
}

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
