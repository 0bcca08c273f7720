package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
)

// Keepalives of idle workers, and the deadlines that they move, are not flushed at once: the
// document is written as often as without them.
func TestKeepalivesOfIdleWorkersAreNotFlushed(t *testing.T) {
	largeScene(t, func(*Config) {}, func(c *simCluster) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		lead, w := c.active(), c.world
		const workers = 20
		half := time.Duration(lead.View().Meta().Settings.WorkerTimeoutMs) * time.Millisecond / 2
		propose := func(m *fsmpb.Mutation) error {
			_, _, err := lead.Propose(ctx, m)
			time.Sleep(half / workers) // each worker has a time of its own
			return err
		}
		for i := range workers {
			if err := propose(script.RegisterWorker(fmt.Sprintf("w%d", i), "t")); err != nil {
				return err
			}
		}
		began := time.Now()
		written := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.accepted)
		}
		before := written()
		for range 10 {
			for i := range workers {
				if err := propose(script.HeartbeatByName(fmt.Sprintf("w%d", i))); err != nil {
					return err
				}
			}
		}
		passed := time.Since(began)
		if n, most := written()-before, int(passed/lead.cfg.Flush.Heartbeat)+5; n > most {
			return fmt.Errorf("the document was written %d times in %v, at most %d are for its own heartbeat", n, passed, most)
		}
		return nil
	})
}
