package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"osqueue/internal/storagetest/script"
)

func TestWaitEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	l.enqueue(n, "a", "b")
	waiting := func(ctx context.Context, id string) <-chan error {
		result := make(chan error, 1)
		go func() { result <- n.WaitEnded(ctx, id) }()
		return result
	}
	wants := func(result <-chan error, want error) {
		t.Helper()
		if err := <-result; !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	wants(waiting(t.Context(), "nobody"), nil)
	first := waiting(t.Context(), "a")
	ctx, cancel := context.WithCancel(t.Context())
	second := waiting(ctx, "b")
	l.commit(n, script.CompleteOf(l.claim(n, "w")))
	wants(first, nil)
	wants(waiting(t.Context(), "a"), nil)
	cancel()
	wants(second, context.Canceled)
	third := waiting(t.Context(), "b")
	n.cancel()
	wants(third, ErrClosed)
}

// If a thousand claims wait and ten jobs arrive, ten claims are tried and get them.
func TestNoThunderingHerd(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	const sleepers, jobs = 1000, 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var woken, claimed atomic.Int64
	var wg sync.WaitGroup
	for range sleepers {
		wg.Go(func() {
			for {
				a, err := n.AwaitClaim(ctx, nil, script.Claim("w", 1, "t"))
				if err != nil {
					return
				}
				if a.Woken {
					woken.Add(1)
					a.Result, _, _ = n.Propose(ctx, script.Claim("w", 1, "t"))
				}
				if len(a.Result.Jobs) == 1 {
					claimed.Add(1)
					return
				}
			}
		})
	}
	l.eventually("all to sleep", func() bool { return n.ready.Sleeping() == sleepers })
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint(i))
	}
	l.enqueue(n, ids...)
	l.eventually("all jobs to be claimed", func() bool { return claimed.Load() == jobs })
	cancel()
	wg.Wait()
	// A rescan may happen in between, several times on a slow machine, and wake sleepers
	// that find no job.
	if got := woken.Load(); got > sleepers/5 {
		t.Fatalf("%d woke up for %d jobs", got, jobs)
	}
}
