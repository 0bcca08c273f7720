package cluster_test

import (
	"fmt"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
)

// Everything that was sent to a follower's raft arrives once more: votes, entries, and the snapshot
// with which the follower began. The follower keeps what it has confirmed. Then the leader is lost for good.
func TestReplayedRequestsTakeNothingBack(t *testing.T) {
	c := cluster.Start(t, cluster.Options{
		Bucket: store.Start(t).URL(), Links: true,
		Flags: []string{"--raft-snapshot-threshold", "16", "--raft-snapshot-interval", "100ms", "--raft-trailing-logs", "4"},
	})
	jobs := 0
	enqueueMore := func(n int) {
		t.Helper()
		for range n {
			enqueue(t, c, client.NewJob{ID: fmt.Sprintf("job-%d", jobs), Type: "t"})
			jobs++
		}
	}
	enqueueMore(10)
	f := c.Follower()
	f.Kill()
	enqueueMore(60)
	f.Start()
	applied := func() {
		t.Helper()
		goal := c.WaitLeader()
		c.Eventually(patience, f.Name+" to have all entries", func() error {
			lead, err := goal.Status()
			if err != nil {
				return err
			}
			own, err := f.OwnStatus()
			if err == nil && own.Applied < lead.CommitIndex {
				err = fmt.Errorf("%d of %d are applied", own.Applied, lead.CommitIndex)
			}
			return err
		})
	}
	applied()
	enqueueMore(8)
	applied()
	for range 2 {
		if n := c.Net().Replay(link.Link{To: f.Name, Service: link.Raft}); n == 0 {
			t.Fatal("nothing was sent again")
		}
		enqueueMore(3)
		applied()
	}
	if !f.Running() {
		t.Fatalf("%s has ended", f.Name)
	}
	c.WaitLeader().Kill()
	c.WaitLeader()
	for i := range jobs {
		id := fmt.Sprintf("job-%d", i)
		if _, err := c.Client.Job(c.Context(patience), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
