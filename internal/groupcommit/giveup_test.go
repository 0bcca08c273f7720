package groupcommit

import (
	"context"
	"testing"
)

// TestAnswerBeatsDeadline looks inside: from outside, no order of events is
// sure to bring the answer and the deadline to a caller at the same time.
func TestAnswerBeatsDeadline(t *testing.T) {
	b := New(Config[int, int]{
		Start: func(context.Context, []int) Wait[int] { return func() ([]int, error) { return nil, nil } },
	})
	defer b.Close()
	w := &waiter[int, int]{done: make(chan struct{}, 1)}
	if !w.settle(42, nil) {
		t.Fatal("a fresh waiter took no answer")
	}
	if result, err := b.giveUp(w, context.DeadlineExceeded); result != 42 || err != nil {
		t.Errorf("%d, %v; want the answer that was there", result, err)
	}
	if w.settled.Load() || len(w.done) != 0 {
		t.Error("the waiter was not made ready for its next call")
	}
}
