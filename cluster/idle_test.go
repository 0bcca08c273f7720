package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"osqueue/fsm/fsmpb"
)

// Keepalives of idle workers are log entries that are not flushed at once: the document
// is written as often as without them.
func TestKeepalivesOfIdleWorkersAreNotFlushed(t *testing.T) {
	largeScene(t, func(*Config) {}, func(c *simCluster) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		lead, w := c.active(), c.world
		for i := range 20 {
			op := &fsmpb.RegisterWorker{Name: fmt.Sprintf("w%d", i), Types: []string{"t"}}
			if _, _, err := lead.Propose(ctx, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: op}}); err != nil {
				return err
			}
		}
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		before := len(w.accepted)
		w.mu.Unlock()
		for range 55 {
			for i := range 20 {
				op := &fsmpb.Heartbeat{Worker: fmt.Sprintf("w%d", i)}
				if _, _, err := lead.Propose(ctx, &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}); err != nil {
					return err
				}
			}
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		n := len(w.accepted) - before
		w.mu.Unlock()
		if most := int(time.Minute/lead.cfg.Flush.Heartbeat) + 5; n > most {
			return fmt.Errorf("the document was written %d times in a minute, at most %d are for its own heartbeat", n, most)
		}
		return nil
	})
}
