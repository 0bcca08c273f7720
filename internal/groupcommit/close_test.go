package groupcommit_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"osqueue/internal/groupcommit"
)

func TestCloseFailsBufferedAndEndsInFlight(t *testing.T) {
	b, l, first := occupied(t, groupcommit.Config[int, int]{})
	answers := doAll(t, b, 1, 2)
	b.Close()
	if a := <-first; !errors.Is(a.err, context.Canceled) {
		t.Errorf("in flight: %v", a.err)
	}
	for range 2 {
		if a := <-answers; !errors.Is(a.err, groupcommit.ErrClosed) || !errors.Is(a.err, groupcommit.ErrNotStarted) {
			t.Errorf("buffered: %v", a.err)
		}
	}
	if _, err := b.Do(context.Background(), 3); !errors.Is(err, groupcommit.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if len(l.seen()) != 1 {
		t.Errorf("batches %v", l.seen())
	}
	b.Close() // again, without harm
}

func TestDrainCommitsWhatIsBuffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l, first := occupied(t, groupcommit.Config[int, int]{MaxItems: 1})
		answers := doAll(t, b, 1, 2)
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(context.Background()) }()
		synctest.Wait()
		if _, err := b.Do(context.Background(), 3); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("during the drain: %v", err)
		}
		for range 3 {
			l.gate <- struct{}{}
		}
		<-first
		for range 2 {
			if a := <-answers; a.err != nil {
				t.Errorf("item %d: %v", a.item, a.err)
			}
		}
		if err := <-drained; err != nil {
			t.Errorf("drain: %v", err)
		}
		if want := [][]int{{0}, {1}, {2}}; !reflect.DeepEqual(l.seen(), want) {
			t.Errorf("batches %v, want %v", l.seen(), want)
		}
	})
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	b, _, first := occupied(t, groupcommit.Config[int, int]{})
	answers := doAll(t, b, 1)
	if err := b.Drain(canceled()); !errors.Is(err, context.Canceled) {
		t.Errorf("drain: %v", err)
	}
	if a := <-first; !errors.Is(a.err, context.Canceled) {
		t.Errorf("in flight: %v", a.err)
	}
	if a := <-answers; !errors.Is(a.err, groupcommit.ErrClosed) {
		t.Errorf("buffered: %v", a.err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
