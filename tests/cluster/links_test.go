package cluster_test

import (
	"bytes"
	"os"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
)

// All traffic uses links, and each link knows its user.
func TestEverythingGoesOverLinks(t *testing.T) {
	s := store.Start(t)
	c := cluster.Start(t, cluster.Options{Bucket: s.URL(), Links: true})
	enqueue(t, c, client.NewJob{Type: "t"})
	w := c.StartWorker("worker-1", "--exec", "t=true", "--poll-wait", "1s")
	c.Eventually(patience, "the worker to complete the job", func() error {
		_, err := c.Client.Claim(c.Context(patience), client.ClaimOptions{Worker: "nobody", Types: []string{"none"}})
		if err != nil {
			return err
		}
		st, err := c.Client.Stats(c.Context(patience))
		if err == nil && st.Completed == 0 {
			err = errNotYet
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
