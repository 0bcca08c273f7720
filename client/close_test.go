package client

import (
	"errors"
	"testing"
)

// Nothing is sent for a call that comes after Close, however soon the answer would be
// there.
func TestAClosedClientSendsNothing(t *testing.T) {
	c := newCluster(t)
	cl := c.client(nil)
	cl.Close()
	for range 200 {
		if _, err := cl.Enqueue(bounded(t), NewJob{}); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
		for _, err := range cl.Events(bounded(t), EventOptions{}) {
			if !errors.Is(err, ErrClosed) {
				t.Fatalf("got %v", err)
			}
		}
	}
	if n := c.requests(); len(n) != 0 {
		t.Errorf("%d requests were sent: %v", len(n), n[0])
	}
}
