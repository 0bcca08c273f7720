package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
)

// All traffic uses links, and each link knows its user.
func TestEverythingGoesOverLinks(t *testing.T) {
	t.Parallel()
	s := store.Start(t)
	c := cluster.Start(t, cluster.Options{Bucket: s.URL(), Links: true})
	_, err := c.Client.Enqueue(c.Context(patience), client.NewJob{Type: "t"})
	check(t, err)
	w := c.StartWorker("worker-1", "--exec", "t=true", "--poll-wait", "1s")
	c.Eventually(patience, "the worker to complete the job", func() error {
		_, err := c.Client.Claim(c.Context(patience), client.ClaimOptions{Worker: "nobody", Types: []string{"none"}})
		if err != nil {
			return err
		}
		st, err := c.Client.Stats(c.Context(patience))
		if err == nil && st.Completed == 0 {
			err = errors.New("it is not completed")
		}
		return err
	})
	if !w.Running() {
		t.Fatal("the worker has ended")
	}
	leader := c.WaitLeader()
	links := []link.Link{
		{From: link.Client, To: leader.Name, Service: link.HTTP},
		{From: "worker-1", To: leader.Name, Service: link.HTTP},
		{From: leader.Name, To: "worker-1", Service: link.HTTP},
	}
	if s.HasProxy() {
		links = append(links, link.Link{From: leader.Name, To: link.Store, Service: link.Bucket},
			link.Link{From: link.Store, To: leader.Name, Service: link.Bucket})
	}
	for _, n := range c.Nodes {
		if n != leader {
			links = append(links, link.Link{From: leader.Name, To: n.Name, Service: link.Raft},
				link.Link{From: n.Name, To: leader.Name, Service: link.Raft})
		}
	}
	for _, l := range links {
		if c.Net().Count(l).Passed == 0 {
			t.Errorf("nothing has passed on %v", l)
		}
	}
	for _, l := range []link.Link{
		{From: link.Client, Service: link.Raft},
		{From: link.Client, To: link.Store},
		{From: "worker-1", Service: link.Raft},
		{From: "worker-1", To: link.Store},
	} {
		if got := c.Net().Count(l); got != (link.Count{}) {
			t.Errorf("there is something on %v: %v", l, got)
		}
	}
}

// The program that people run has no such clock, and no program has the packages for gRPC of the
// client of GCS.
func TestProgramsAreBuiltWithTheirTags(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		build func() (string, error)
		want  bool
	}{{"program", cluster.Binary, false}, {"program for faults", cluster.FaultBinary, true}} {
		path, err := p.build()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(data, []byte("OSQUEUE_FAULT_CLOCK")); got != p.want {
			t.Errorf("the %s knows the file of the fault clock: %v", p.name, got)
		}
		if bytes.Contains(data, []byte("google.golang.org/grpc/xds")) {
			t.Errorf("the %s contains gRPC's xds; build it with -tags disable_grpc_modules", p.name)
		}
	}
}

// Everything that was sent to a follower's raft arrives once more: votes, entries, and the snapshot
// with which the follower began. The follower keeps what it has confirmed. Then the leader is lost for good.
func TestReplayedRequestsTakeNothingBack(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{
		Bucket: store.Start(t).URL(), Links: true,
		Flags: []string{"--raft-snapshot-threshold", "16", "--raft-snapshot-interval", "100ms", "--raft-trailing-logs", "4"},
	})
	jobs := 0
	enqueueMore := func(n int) {
		t.Helper()
		for range n {
			_, err := c.Client.Enqueue(c.Context(patience), client.NewJob{ID: fmt.Sprintf("job-%d", jobs), Type: "t"})
			check(t, err)
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
