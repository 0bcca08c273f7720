package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// appliedIndex returns the index of the newest entry that the leader has applied.
func appliedIndex(t *testing.T, c *cluster.Cluster) uint64 {
	t.Helper()
	var applied uint64
	c.Eventually(longPatience, "the active leader to say what it has applied", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err == nil && s.Fence.State == "active" {
				applied = s.Applied
				return nil
			}
		}
		return errors.New("no node is the active leader")
	})
	return applied
}

// A worker of one slot needs about one entry for each job of a queue: the report carries the
// next claim.
func TestReportsCarryClaimsOnRealNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	const jobs = 40
	batch := make([]client.NewJob, jobs)
	for i := range batch {
		batch[i] = client.NewJob{ID: fmt.Sprint("j", i), Type: "t"}
	}
	if _, err := c.Client.EnqueueBatch(ctx, batch); err != nil {
		t.Fatal(err)
	}
	before := appliedIndex(t, c)
	c.StartWorker("worker", "--exec", "t=true", "--concurrency", "1")
	c.Eventually(longPatience, "all jobs to be completed", func() error {
		s, err := c.Nodes[0].Status()
		if err == nil && s.Tasks.Completed < jobs {
			err = fmt.Errorf("%d are", s.Tasks.Completed)
		}
		return err
	})
	entries := appliedIndex(t, c) - before
	t.Logf("%d entries for %d jobs", entries, jobs)
	if entries > jobs*3/2 {
		t.Errorf("%d entries for %d jobs, want about one for each", entries, jobs)
	}
}
