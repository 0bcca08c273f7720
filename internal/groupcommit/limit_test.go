package groupcommit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/groupcommit"
)

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
