package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
)

// startLinked starts a cluster behind links, on a store behind its own proxy, if the
// store has one.
func startLinked(t *testing.T, nodes int) *cluster.Cluster {
	t.Helper()
	return cluster.Start(t, cluster.Options{Nodes: nodes, Bucket: store.Start(t).URL(), Links: true})
}

func names(nodes []*cluster.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

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

// A leader in the minority of five is replaced, and finds its way back.
func TestPartitionOfFive(t *testing.T) {
	c := startLinked(t, 5)
	old := c.WaitLeader()
	minority, majority := []*cluster.Node{old}, []*cluster.Node(nil)
	for _, n := range c.Nodes {
		switch {
		case n == old:
		case len(minority) < 2:
			minority = append(minority, n)
		default:
			majority = append(majority, n)
		}
	}
	f := c.Partition(minority, majority)
	next := c.WaitOtherLeader(old)
	for _, n := range minority {
		if n == next {
			t.Errorf("%s leads with the minority %v", n.Name, names(minority))
		}
	}
	enqueue(t, c, client.NewJob{Type: "t"})
	if got := f.Count(); got.Withheld == 0 {
		t.Errorf("the partition has withheld nothing: %v", got)
	}
	for _, a := range minority {
		for _, b := range majority {
			between := c.Net().Count(link.Link{From: a.Name, To: b.Name})
			time.Sleep(10 * time.Millisecond)
			if after := c.Net().Count(link.Link{From: a.Name, To: b.Name}); after.Passed != between.Passed {
				t.Errorf("bytes pass from %s to %s", a.Name, b.Name)
			}
		}
	}
	c.Heal()
	c.WaitLeader()
	inStep(t, c)
}

// An isolated node that comes back does not disturb the others.
func TestIsolatedFollower(t *testing.T) {
	c := startLinked(t, 4)
	leader := c.WaitLeader()
	before, err := leader.Status()
	if err != nil {
		t.Fatal(err)
	}
	follower := c.Follower()
	f := c.Isolate(follower)
	time.Sleep(3 * time.Second) // six election timeouts
	if got := f.Count(); got.Withheld == 0 || got.Passed != 0 {
		t.Errorf("the isolation is none: %v", got)
	}
	// With a term of its own it would depose the leader.
	own, err := follower.OwnStatus()
	others, err2 := c.WaitLeader().Status()
	if err != nil || err2 != nil || own.Term > others.Term {
		t.Errorf("the isolated %s is in term %d, the others in %d: %v", follower.Name, own.Term, others.Term, errors.Join(err, err2))
	}
	f.Heal()
	inStep(t, c)
	after, err := c.WaitLeader().Status()
	if err != nil {
		t.Fatal(err)
	}
	// A machine that is too busy moves leadership, too.
	if most := before.Term + 1 + unheard(c); after.Term > most {
		t.Errorf("after the return the term is %d, was %d, expected at most %d", after.Term, before.Term, most)
	}
}

// unheard returns how often a leader stepped down because it did not hear from a majority.
func unheard(c *cluster.Cluster) (n uint64) {
	for _, node := range c.Nodes {
		n += uint64(strings.Count(node.Log(), "failed to contact quorum of nodes, stepping down"))
	}
	return n
}

// A leader that cannot reach the bucket continues to work, and reports the lag.
func TestLeaderWithoutBucket(t *testing.T) {
	s := store.Start(t)
	if !s.HasProxy() {
		t.Skip("a directory has no link")
	}
	c := cluster.Start(t, cluster.Options{Bucket: s.URL(), Links: true})
	leader := c.WaitLeader()
	f := c.Net().Impose(link.Condition{Cut: true}, link.Both(leader.Name, link.Store)...)
	enqueue(t, c, client.NewJob{Type: "t"})
	c.Eventually(patience, "the lag to show", func() error {
		st, err := leader.Status()
		if err == nil && st.LagMs < 500 {
			err = errNotYet
		}
		return err
	})
	if got := f.Count(); !got.Harmed() {
		t.Errorf("the cut has hit nothing: %v", got)
	}
	f.Heal()
	c.Eventually(patience, "the bucket to catch up", func() error {
		st, err := c.WaitLeader().Status()
		if err == nil && st.LagEntries > 0 {
			err = errNotYet
		}
		return err
	})
}

// A worker that is paused, and one that is killed, lose their jobs to another.
func TestWorkersCanBePausedAndKilled(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Links: true, Flags: []string{"--lease", "1s"}})
	// One job at a time: no claim waits at the server for a paused worker.
	one := []string{"--exec", "t=sleep 2", "--poll-wait", "1s", "--concurrency", "1"}
	first := c.StartWorker("first", one...)
	id := enqueue(t, c, client.NewJob{Type: "t"})
	holds := func(name string) {
		t.Helper()
		c.Eventually(patience, name+" to hold the job", func() error {
			j, err := c.Client.Job(c.Context(patience), id)
			if err == nil && (j.WorkerID == nil || *j.WorkerID != name || j.Status != "in_progress") {
				err = fmt.Errorf("it is %s, attempt %d, last error %v", j.Status, j.Attempts, j.LastError)
			}
			return err
		})
	}
	holds("first")
	first.Pause()
	second := c.StartWorker("second", one...)
	holds("second")
	second.Kill()
	if second.Running() {
		t.Fatal("a killed worker is running")
	}
	first.Continue()
	holds("first")
	c.Eventually(patience, "the job to be completed", func() error {
		j, err := c.Client.Job(c.Context(patience), id)
		if err == nil && j.Status != "completed" {
			err = errNotYet
		}
		return err
	})
}
