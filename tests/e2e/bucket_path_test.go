package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
)

// onPaths returns a running cluster of three nodes that share a store, each with a proxy of its own.
func onPaths(t *testing.T, env ...string) (*cluster.Cluster, map[*cluster.Node]*store.Proxy) {
	t.Helper()
	s := store.StartKind(t, store.GoFakeS3)
	c := cluster.New(t, cluster.Options{Bucket: s.URL(), Env: env})
	paths := make(map[*cluster.Node]*store.Proxy)
	for _, n := range c.Nodes {
		var url string
		paths[n], url = s.AnotherPath(t)
		n.Flags = append(n.Flags, "--bucket", url)
		n.Start()
	}
	c.WaitLeader()
	return c, paths
}

// objectWrite enqueues jobs, each for at most a second, until one is in the bucket. It returns the id of
// that job, and the time that this took.
func objectWrite(t *testing.T, c *cluster.Cluster, name string) (id string, took time.Duration) {
	t.Helper()
	began := time.Now()
	c.Eventually(patience+longPatience, "a write in the bucket", func() error {
		id = fmt.Sprintf("%s-%d", name, time.Since(began).Milliseconds())
		var r client.Receipt
		ctx, cancel := context.WithTimeout(client.WithReceipt(client.WithAck(t.Context(), client.AckObject), &r), time.Second)
		defer cancel()
		_, err := c.Client.Enqueue(ctx, client.NewJob{ID: id, Type: "t"})
		if err == nil && r.Committed() != client.AckObject {
			err = fmt.Errorf("it is answered as %s", r.Committed())
		}
		return err
	})
	return id, time.Since(began)
}

// within checks a time, of which a machine with more to do than processors may take twice as much.
func within(t *testing.T, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %.1f s", what, took.Seconds())
	var load float64
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(data), &load) // without a load there is no allowance
	}
	if load > float64(runtime.NumCPU()) {
		limit *= 2
	}
	if took > limit {
		t.Errorf("%s took %v, want at most %v (load %.1f)", what, took, limit, load)
	}
}

// The way of one node to the bucket is broken. Writes continue as soon as another node leads: if
// the node leads, and if it wins an election.
func TestOneNodeWithoutTheBucket(t *testing.T) {
	for name, f := range map[string]struct {
		limit time.Duration
		spoil func(*store.Proxy)
	}{
		"refuses": {5 * time.Second, func(p *store.Proxy) { p.SetAway(store.Refuses) }},
		"fails":   {5 * time.Second, func(p *store.Proxy) { p.Revoke(os.Getenv("AWS_ACCESS_KEY_ID")) }},
		"hangs":   {10 * time.Second, func(p *store.Proxy) { p.SetAway(store.Hangs) }},
	} {
		t.Run(name, func(t *testing.T) {
			c, paths := onPaths(t)
			first, _ := objectWrite(t, c, "before")
			ids := []string{first}

			bad := c.WaitLeader()
			stop := make(chan struct{})
			longest := quorumWrites(t, c, stop)
			f.spoil(paths[bad])
			id, took := objectWrite(t, c, "led")
			ids = append(ids, id)
			within(t, "the leader's way to the bucket "+name+": until a write with ack=object", took, f.limit)
			close(stop)
			if l := <-longest; l.count == 0 {
				t.Error("no write with ack=quorum was answered")
			} else {
				within(t, fmt.Sprintf("the longest of %d writes with ack=quorum meanwhile", l.count), l.took, f.limit)
			}
			if c.WaitLeader() == bad {
				t.Errorf("%s leads, and cannot use the bucket", bad.Name)
			}

			// The same node wins the next election: the leader hands over to the node with the longest log.
			if err := bad.Stop(); err != nil {
				t.Fatal(err)
			}
			bad.Start() // it has handed nothing over
			c.WaitVoters()
			follows(c, bad)
			won, leader := elections(bad), c.WaitOtherLeader(bad)
			other := c.Nodes[slices.IndexFunc(c.Nodes, func(n *cluster.Node) bool { return n != bad && n != leader })]
			other.Pause()
			for i := range 3 {
				if _, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{ID: fmt.Sprint("longer-", i), Type: "t"}); err != nil {
					t.Fatal(err)
				}
			}
			leader.Terminate()
			c.Eventually(patience, bad.Name+" to win the election", func() error {
				if elections(bad) == won {
					return errors.New("it has not")
				}
				return nil
			})
			other.Continue()
			id, took = objectWrite(t, c, "won")
			ids = append(ids, id)
			within(t, "the node wins an election: until a write with ack=object", took, f.limit)
			paths[bad].Behave()
			paths[bad].Revoke()
			mustHave(t, c, ids)
		})
	}
}

// elections returns how often a node has become raft's leader.
func elections(n *cluster.Node) int { return strings.Count(n.Log(), "entering leader state") }

// written are the writes of quorumWrites.
type written struct {
	count int
	took  time.Duration // of the longest
}

// quorumWrites enqueues jobs until stop is closed, and sends then how long the longest call took.
func quorumWrites(t *testing.T, c *cluster.Cluster, stop <-chan struct{}) <-chan written {
	cl := c.NewClient()
	t.Cleanup(cl.Close)
	done := make(chan written, 1)
	go func() {
		var w written
		defer func() { done <- w }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			began := time.Now()
			if _, err := cl.Enqueue(t.Context(), client.NewJob{Type: "quorum"}); err != nil {
				if t.Context().Err() == nil { // the test has not failed
					t.Error(err)
				}
				return
			}
			w.count++
			w.took = max(w.took, time.Since(began))
		}
	}()
	return done
}

// The store refuses the old key of all nodes, and the new one is in their credentials file.
func TestRotatedCredentialsOfANode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	rotate := func(key string) {
		t.Helper()
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = secret\n", key)
		if err := errors.Join(os.WriteFile(file+".next", []byte(text), 0o600), os.Rename(file+".next", file)); err != nil {
			t.Fatal(err)
		}
	}
	rotate("OLDKEY")
	c, paths := onPaths(t, "AWS_SHARED_CREDENTIALS_FILE="+file, "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=")
	id, _ := objectWrite(t, c, "before")
	for _, p := range paths {
		p.Revoke("OLDKEY")
	}
	rotate("NEWKEY")
	after, took := objectWrite(t, c, "after")
	within(t, "rotated credentials: until a write with ack=object", took, 5*time.Second)
	hits := 0
	for _, p := range paths {
		hits += p.Hits()[store.Denied]
	}
	if hits == 0 {
		t.Error("no request had the old key")
	}
	mustHave(t, c, []string{id, after})
}

// One node gets another address, and keeps its disk: the others know the address before, and the leader
// has it in raft's configuration after.
func TestOneNodeMoves(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Flags: standbyTimes})
	ids := fill(t, c, 4, 10)
	n := c.Follower()
	old := n.Raft
	n.Move()
	for _, o := range c.Nodes {
		if o == n {
			continue
		}
		if err := o.Stop(); err != nil {
			t.Fatal(err)
		}
		o.Start()
		follows(c, o)
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n.Start()
	c.Eventually(longPatience, "the leader to have moved the node", func() error {
		leader, err := c.Leader()
		if err != nil {
			return err
		}
		s, err := leader.Status()
		if err != nil {
			return err
		}
		for _, p := range s.Peers {
			if p.Name == n.Name && p.RaftAddress == n.Raft && p.Voter {
				return nil
			}
		}
		return fmt.Errorf("it was at %s: %+v", old, s.Peers)
	})
	follows(c, n)
	within(t, "one node has moved: until it follows", time.Since(began), 10*time.Second)
	mustHave(t, c, ids)
}

// All nodes get other addresses at once, and keep their disks.
func TestAllNodesMove(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Flags: standbyTimes})
	ids := fill(t, c, 4, 10)
	c.StopAll()
	for _, n := range c.Nodes {
		n.Move()
	}
	began := time.Now()
	for _, n := range c.Nodes {
		n.Start()
	}
	moved := c.NewClient()
	t.Cleanup(moved.Close)
	e, err := moved.Enqueue(c.Context(longPatience), client.NewJob{ID: "moved", Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	within(t, "all nodes have moved: until a write", time.Since(began), 10*time.Second)
	for _, id := range append(ids, e.JobID) {
		if _, err := moved.Job(c.Context(patience), id); err != nil {
			t.Errorf("job %s: %v", id, err)
		}
	}
}

// A single node stands still for longer than its leases last. When it goes on, it extends all leases
// before it ends any: the heartbeat that waited is accepted, and no other worker gets a job.
func TestAFrozenNodeKeepsItsLeases(t *testing.T) {
	t.Parallel()
	const lease, jobs = 2 * time.Second, 20
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	fill(t, c, jobs, 10)
	claimed, err := c.Client.Claim(c.Context(longPatience), client.ClaimOptions{Worker: "w", Types: []string{"t"}, Max: jobs, Lease: lease})
	if err != nil || len(claimed) != jobs {
		t.Fatalf("%d jobs, %v", len(claimed), err)
	}
	leases := make([]client.Lease, jobs)
	for i, j := range claimed {
		leases[i] = j.Lease()
	}
	n := c.Nodes[0]
	n.Pause()
	beats := make(chan error, 1)
	go func() {
		answers, err := c.Client.Heartbeat(c.Context(longPatience), "w", leases)
		for _, b := range answers {
			if b.Tag != "" {
				err = errors.Join(err, fmt.Errorf("job %s: %s", b.JobID, b.Tag))
			}
		}
		beats <- err
	}()
	time.Sleep(3 * lease) // the node's clock runs meanwhile
	n.Continue()
	if err := <-beats; err != nil {
		t.Errorf("the heartbeat that waited: %v", err)
	}
	others, err := c.Client.Claim(c.Context(longPatience), client.ClaimOptions{Worker: "other", Types: []string{"t"}, Max: jobs})
	if err != nil || len(others) > 0 {
		t.Errorf("another worker gets %d jobs, %v", len(others), err)
	}
	var s v1.Status
	if s, err = n.Status(); err != nil || s.State != "leader" {
		t.Errorf("the node is %s, %v", s.State, err)
	}
	for _, l := range leases {
		if err := c.Client.Complete(c.Context(longPatience), l, nil); err != nil {
			t.Fatalf("job %s: %v", l.JobID, err)
		}
	}
}
