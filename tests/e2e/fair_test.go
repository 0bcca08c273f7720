package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"osqueue/client/api/v1/frame"
)

// A connection that always has as many requests in progress as it may delays a request of
// another connection by a bounded number of its own, whatever their size.
func TestAGreedyStreamDelaysOthersByABoundedNumberOfRequests(t *testing.T) {
	c, err := startLive(1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	for _, payload := range []int{10, 20_000} {
		t.Run(fmt.Sprintf("payload=%d", payload), func(t *testing.T) {
			const inFlight, calls = 1000, 30
			answered := beGreedy(t, c.Servers()[0], inFlight, payload)
			polite := openStream(t, c.Servers()[0])
			defer polite.conn.Close()
			worst := int64(0)
			for range calls {
				before := answered.Load()
				if err := polite.call(); err != nil {
					t.Fatal(err)
				}
				worst = max(worst, answered.Load()-before)
			}
			t.Logf("at most %d requests of the greedy connection were answered during a polite one", worst)
			// Those in progress at its start, and those that replace them in the same commits.
			if worst > 3*inFlight {
				t.Errorf("%d requests of the greedy connection were answered first, at most %d are fair", worst, 3*inFlight)
			}
		})
	}
}

// beGreedy keeps requests in progress on one connection until the test ends. It returns the
// number of its answers, once there have been some.
func beGreedy(t *testing.T, address string, inFlight, payload int) *atomic.Int64 {
	t.Helper()
	var answered atomic.Int64
	c := openStream(t, address)
	slots := make(chan uint32, inFlight)
	for i := range inFlight {
		slots <- uint32(i + 1)
	}
	busy, written, read := make(chan struct{}), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		_ = c.conn.Close()
		<-read
		close(slots)
		<-written
	})
	body := []byte(`{"type":"greedy","payload":"` + strings.Repeat("x", payload) + `"}`)
	go func() {
		defer close(written)
		var b []byte
		for id := range slots {
			b, _ = frame.Append(b[:0], frame.KindRequest, id, &frame.Request{Target: "/v1/jobs", Body: body})
			if _, err := c.conn.Write(b); err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(read)
		for {
			var buf [frame.HeadBytes]byte
			head, err := frame.ReadHead(c.in, &buf)
			if err != nil {
				return
			}
			if _, err := c.in.Discard(int(head.Length)); err != nil {
				return
			}
			if head.Kind == frame.KindAnswer {
				if answered.Add(1) == int64(inFlight) {
					close(busy)
				}
				slots <- head.ID
			}
		}
	}()
	select {
	case <-busy:
	case <-read:
		t.Fatal("the greedy connection ended")
	}
	return &answered
}
