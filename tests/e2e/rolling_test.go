package e2e

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// rollingRate is the number of jobs a second during a rolling restart.
const rollingRate = 1000

// All nodes are restarted in turn by SIGTERM, or drained by call, under load. No call fails. The pause of a restart is its
// slowest call.
func TestRollingRestart(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var slowest atomic.Int64
	var calls atomic.Int64
	var wg sync.WaitGroup
	const callers = 32
	for range callers {
		wg.Go(func() {
			tick := time.NewTicker(callers * time.Second / rollingRate)
			defer tick.Stop()
			for ctx.Err() == nil {
				began := time.Now()
				if _, err := c.Client.Enqueue(context.WithoutCancel(ctx), client.NewJob{Type: "t"}); err != nil {
					t.Errorf("enqueue: %v", err)
					return
				}
				calls.Add(1)
				for took := int64(time.Since(began)); ; {
					if old := slowest.Load(); took <= old || slowest.CompareAndSwap(old, took) {
						break
					}
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	began := time.Now()
	var pauses []time.Duration
	for round := range 3 {
		for _, n := range c.Nodes {
			slowest.Store(0)
			if round == 2 {
				if _, err := c.Client.Drain(c.Context(patience), n.HTTP); err != nil {
					t.Fatal(err)
				}
				c.Eventually(longPatience, n.Name+" to end", ended(n))
			} else {
				check(t, n.Stop())
			}
			n.Start()
			ready(c, n)
			pauses = append(pauses, time.Duration(slowest.Load()).Round(time.Millisecond))
		}
	}
	rate := float64(calls.Load()) / time.Since(began).Seconds()
	cancel()
	wg.Wait()
	slices.Sort(pauses)
	t.Logf("%.0f calls a second, 0 failed; slowest call of each restart: median %v, most %v, all %v", rate, pauses[len(pauses)/2], pauses[len(pauses)-1], pauses)
	if got, err := stored(c); err != nil || got != int(calls.Load()) {
		t.Errorf("%d jobs of %d that were acknowledged (%v)", got, calls.Load(), err)
	}
	within(t, "the longest pause of a restart", pauses[len(pauses)-1], 3*time.Second)
}
