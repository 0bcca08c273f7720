package regression

import (
	"errors"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// One of two disks that have the acknowledged jobs loses its raft log, and nothing
// else. It must not vote for the node that lacks the jobs.
func TestADiskThatLostItsLogHasNoVote(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	leader := c.WaitLeader()
	var others []*cluster.Node
	for _, n := range c.Nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	lost, lagging := others[0], others[1]
	c.Eventually(patience, "every node to know the leader", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Status(); err != nil || s.Leader == nil {
				return errors.Join(errors.New(n.Name+" does not"), err)
			}
		}
		return nil
	})
	lagging.Kill()
	var ids []string
	for range 20 {
		e, err := c.Client.Enqueue(c.Context(patience), client.NewJob{Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	leader.Kill()
	lost.Kill()
	if err := lost.RemoveLog(); err != nil {
		t.Fatal(err)
	}
	lagging.Start()
	lost.Start()
	c.Eventually(patience, lost.Name+" to end", ended(lost))
	if log := lost.LogTail(5); !strings.Contains(log, "delete its data directory") {
		t.Errorf("%s does not say what to do:\n%s", lost.Name, log)
	}
	if s, err := lagging.Status(); err == nil && s.State == "leader" {
		t.Errorf("%s leads without the acknowledged jobs", lagging.Name)
	}
	leader.Start()
	c.WaitLeader()
	for _, id := range ids {
		if _, err := c.Client.Job(c.Context(patience), id); err != nil {
			t.Fatalf("job %s was acknowledged: %v", id, err)
		}
	}
}
