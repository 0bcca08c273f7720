package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// waiting starts WaitEnded in a goroutine and returns once it waits.
func (b *bench) waiting(ctx context.Context, id string) <-chan error {
	b.t.Helper()
	before := b.node.ends.waiting.Load()
	result := make(chan error, 1)
	go func() { result <- b.node.WaitEnded(ctx, id) }()
	for b.node.ends.waiting.Load() == before && len(result) == 0 {
		time.Sleep(time.Millisecond)
	}
	return result
}

func wants(t *testing.T, result <-chan error, want error) {
	t.Helper()
	select {
	case err := <-result:
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it waits on")
	}
}

func TestWaitEnded(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 3) // t-0-0 to t-0-2
	first, second := b.waiting(t.Context(), "t-0-0"), b.waiting(t.Context(), "t-0-0")
	ctx, cancel := context.WithCancel(t.Context())
	third := b.waiting(ctx, "t-0-1")
	wants(t, b.waiting(t.Context(), "nobody"), nil)

	jobs := b.apply(claimOf("w", 3))[0].Jobs
	if len(first)+len(second)+len(third) != 0 {
		t.Fatal("a claimed job has ended")
	}
	b.apply(completeOf(jobs[0]))
	wants(t, first, nil)
	wants(t, second, nil)
	wants(t, b.waiting(t.Context(), "t-0-0"), nil)

	cancel()
	wants(t, third, context.Canceled)
	fourth := b.waiting(t.Context(), "t-0-2")
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: "w", Lease: &fsmpb.Lease{JobId: "t-0-2", Token: jobs[2].Token}, Permanent: true,
	}}})
	wants(t, fourth, nil)

	fifth := b.waiting(t.Context(), "t-0-1")
	b.node.cancel()
	wants(t, fifth, ErrClosed)
	if n, kept := b.node.ends.waiting.Load(), len(b.node.ends.byID); n != 0 || kept != 0 {
		t.Fatalf("%d wait and %d jobs are remembered, want none", n, kept)
	}
}

// A state that replaces the old one has no events for the jobs that have ended in
// between.
func TestWaitEndedSeesARestoredState(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 2)
	gone, stays := b.waiting(t.Context(), "t-0-0"), b.waiting(t.Context(), "t-0-1")
	other := newBench(t, 100)
	other.enqueue("t", 2)
	j := other.apply(claimOf("w", 1))[0].Jobs[0]
	other.apply(completeOf(j))
	var buf bytes.Buffer
	if err := other.node.View().Encode(&buf); err != nil {
		t.Fatal(err)
	}
	if err := b.node.replica.Restore(io.NopCloser(&buf)); err != nil {
		t.Fatal(err)
	}
	wants(t, gone, nil)
	if b.node.Job("t-0-1").Status != fsm.Unclaimed || len(stays) != 0 {
		t.Fatal("a waiting job has ended")
	}
	b.node.cancel()
	wants(t, stays, ErrClosed)
}
