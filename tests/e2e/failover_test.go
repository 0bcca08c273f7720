package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/model"
)

// wholeLog prevents raft from truncating its log, so that the log can be replayed.
var wholeLog = []string{"--raft-snapshot-threshold", "1000000"}

// startOnStore starts a cluster on a store of its own.
func startOnStore(t *testing.T, flags ...string) (*cluster.Cluster, *store.Store) {
	t.Helper()
	s := store.Start(t)
	return startOn(t, s, flags...), s
}

// startBehindProxy is startOnStore for tests with faults of the store. It skips the test if the
// store does not support faults.
func startBehindProxy(t *testing.T, flags ...string) (*cluster.Cluster, *store.Store, *store.Proxy) {
	t.Helper()
	s := store.Start(t)
	p := s.Proxy(t)
	return startOn(t, s, flags...), s, p
}

func startOn(t *testing.T, s *store.Store, flags ...string) *cluster.Cluster {
	t.Helper()
	return cluster.Start(t, cluster.Options{Bucket: s.URL(), Flags: append(flags, wholeLog...)})
}

// checkDocuments stops the cluster and compares every accepted version of queue.json
// with the invariants and with the log of one node, and checks all objects of the
// bucket. No leader may have taken a write of its own cluster for an edit.
func checkDocuments(t *testing.T, c *cluster.Cluster, s *store.Store) {
	t.Helper()
	c.StopAll()
	s.Settle()
	ctx := c.Context(2 * time.Minute)
	states, err := model.Read(ctx, s.Bucket(), s.Versions())
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Documents(states); err != nil {
		t.Fatal(err)
	}
	verify(t, s)
	noEdits(ctx, t, s)
	if compared, errs := replay(c, states); len(errs) == len(c.Nodes) {
		t.Fatal(errors.Join(errs...))
	} else {
		t.Logf("%d versions of queue.json, %d states compared with a log", len(states), compared)
	}
}

// replay compares states with the log of each node.
func replay(c *cluster.Cluster, states []model.State) (compared int, errs []error) {
	for _, n := range c.Nodes {
		log, err := n.RaftLog()
		if err == nil {
			compared, err = model.Replay(log, states)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
		}
	}
	return compared, errs
}

// noEdits checks that there is no copy of an edited document.
func noEdits(ctx context.Context, t *testing.T, s *store.Store) {
	t.Helper()
	err := s.Bucket().List(ctx, "conflicts/", func(i storage.Info) bool {
		t.Errorf("a document was taken for one that somebody had edited: %s", i.Key)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// verify checks everything in the bucket, as `osqueue verify` does.
func verify(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report, err := archive.Verify(ctx, s.Bucket(), "queue.json", archive.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	if !report.OK() {
		t.FailNow()
	}
	t.Logf("bucket at %s: %d checkpoints, %d segments, %d entries in them, %d strays",
		report.LSN, report.Checkpoints, report.Segments, report.Entries, report.Strays)
}

func TestLeaderKilledUnderLoad(t *testing.T) {
	t.Parallel()
	c, s := startOnStore(t)
	l := startLoad(t, c)
	for range 2 {
		l.waitSent(100)
		old := c.WaitLeader()
		old.Kill()
		next := c.WaitOtherLeader(old)
		t.Logf("%s was killed, %s leads", old.Name, next.Name)
		l.waitSent(50)
		old.Start()
	}
	l.finish()
	checkDocuments(t, c, s)
}

func TestFollowerKilledAndReturns(t *testing.T) {
	t.Parallel()
	// A busy machine does not move leadership with these times.
	c, s := startOnStore(t, "--raft-heartbeat", "3s", "--raft-election", "3s", "--raft-lease", "3s")
	l := startLoad(t, c)
	l.waitSent(50)
	leader, follower := c.WaitLeader(), c.Follower()
	before, err := leader.Status()
	if err != nil {
		t.Fatal(err)
	}
	follower.Kill()
	l.waitSent(100)
	follower.Start()
	l.finish()
	c.Eventually(20*time.Second, "the follower to catch up", func() error {
		ours, err := leader.Status()
		if err != nil {
			return err
		}
		theirs, err := follower.Status()
		if err != nil {
			return err
		}
		if theirs.LSN != ours.LSN {
			return fmt.Errorf("it is at %s, the leader at %s", theirs.LSN, ours.LSN)
		}
		if ours.Term != before.Term {
			return fmt.Errorf("the term went from %d to %d", before.Term, ours.Term)
		}
		return nil
	})
	checkDocuments(t, c, s)
}

func TestAllKilledAndRestarted(t *testing.T) {
	t.Parallel()
	c, s := startOnStore(t)
	l := startLoad(t, c)
	l.waitSent(150)
	for _, n := range c.Nodes {
		n.Kill()
	}
	for _, n := range c.Nodes {
		n.Start()
	}
	c.WaitLeader()
	l.waitSent(50)
	l.finish()
	checkDocuments(t, c, s)
}

func TestGracefulRollLosesNoRequest(t *testing.T) {
	t.Parallel()
	c, s := startOnStore(t)
	l := startLoad(t, c)
	for _, n := range c.Nodes {
		l.waitSent(40)
		if err := n.Stop(); err != nil {
			t.Fatalf("%s: %v", n.Name, err)
		}
		n.Start()
		c.WaitLeader()
	}
	l.finish()
	checkDocuments(t, c, s)
}

func TestTwoClustersOnOneBucket(t *testing.T) {
	t.Parallel()
	s := store.Start(t)
	opt := cluster.Options{Bucket: s.URL(), Flags: []string{"--broker-timeout", "4s", "--broker-heartbeat", "1s", "--max-flush-lag", "5s"}}
	first := cluster.Start(t, opt)
	ids := submit(t, first, 50)
	second := cluster.New(t, opt)
	for _, n := range second.Nodes {
		n.Start()
	}
	second.Eventually(20*time.Second, "the second cluster to stand by", func() error {
		for _, n := range second.Nodes {
			if s, err := n.Status(); err == nil && standsBy(s) {
				return nil
			}
		}
		return errors.New("no node stands by")
	})
	waitFlushed(t, first)
	for _, n := range first.Nodes {
		n.Kill()
	}
	died := time.Now()
	second.WaitLeader()
	t.Logf("the second cluster took over %v after the first died", time.Since(died).Round(time.Millisecond))
	mustHave(t, second, ids)
	more := submit(t, second, 10)

	// The first cluster comes back: it must stand by, although it has a disk and a quorum of
	// its own.
	for _, n := range first.Nodes {
		n.Start()
	}
	first.Eventually(20*time.Second, "the first cluster to stand by", func() error {
		for _, n := range first.Nodes {
			s, err := n.Status()
			if err == nil && s.State == "leader" {
				t.Fatalf("%s of the first cluster is active beside the second", n.Name)
			}
			if err == nil && standsBy(s) {
				return nil
			}
		}
		return errors.New("no node stands by")
	})
	mustHave(t, second, append(ids, more...))
	states, err := model.Read(second.Context(2*time.Minute), s.Bucket(), s.Versions())
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Documents(states); err != nil {
		t.Fatal(err)
	}
}

// standsBy reports whether a node was elected by raft but found that another cluster has the
// document.
func standsBy(s v1.Status) bool {
	return s.Fence.State == "standby" && strings.Contains(s.Fence.Reason, "another broker")
}

func TestFlushAnswersLost(t *testing.T) {
	t.Parallel()
	c, s, p := startBehindProxy(t)
	leader := c.WaitLeader()
	before, err := leader.Status()
	if err != nil {
		t.Fatal(err)
	}
	p.LoseAnswers(5)
	ids := submit(t, c, 20)
	c.Eventually(20*time.Second, "the answers to be lost", func() error {
		ids = append(ids, submit(t, c, 1)...)
		if n := p.Hits()[store.LoseAnswer]; n < 5 {
			return fmt.Errorf("%d of 5", n)
		}
		return nil
	})
	waitFlushed(t, c)
	keptFence(t, c, before)
	mustHave(t, c, ids)
	checkDocuments(t, c, s)
}

// keptFence checks that since before no leader lost its leadership because of the document. An
// epoch ends with the raft term in which it began: without an election there is no new epoch,
// and no leader is fenced. If the machine is too busy for raft's heartbeats, raft may hold
// elections. Each costs one epoch, and the previous leader may learn of it from the document.
func keptFence(t *testing.T, c *cluster.Cluster, before v1.Status) {
	t.Helper()
	after, err := c.WaitLeader().Status()
	if err != nil {
		t.Fatal(err)
	}
	elections, epochs := after.Term-before.Term, after.Epoch-before.Epoch
	if epochs > elections {
		t.Errorf("the document was taken over %d times in %d elections", epochs, elections)
	}
	if elections > 0 {
		t.Logf("raft held %d elections, the document was taken over %d times", elections, epochs)
		return
	}
	for _, n := range c.Nodes {
		if strings.Contains(n.Log(), "this node is no longer the active leader") {
			t.Errorf("%s was fenced, and there was no election", n.Name)
		}
	}
}

// A leader is stopped with a PUT in flight and another takes over. The condition of the late
// PUT must refuse it. When the old leader continues, it must step down and overwrite nothing.
func TestStaleLeaderResumed(t *testing.T) {
	t.Parallel()
	c, s, p := startBehindProxy(t)
	ids := submit(t, c, 20)
	waitFlushed(t, c)
	old := c.WaitLeader()
	before, err := old.Status()
	if err != nil {
		t.Fatal(err)
	}
	late := p.HoldNext()
	ids = append(ids, submit(t, c, 1)...)
	select {
	case <-late.Arrived():
	case <-c.Context(20 * time.Second).Done():
		t.Fatal("no PUT came in")
	}
	old.Pause()
	c.WaitOtherLeader(old)
	ids = append(ids, submitTo(t, c, 20)...)
	if !late.Release() {
		t.Fatal("the late PUT of the stopped leader was accepted")
	}
	old.Continue()
	c.Eventually(20*time.Second, "the old leader to follow", func() error {
		s, err := old.Status()
		if err != nil {
			return err
		}
		if s.State == v1.StateLeader && s.Epoch == before.Epoch || s.Leader == nil {
			return fmt.Errorf("its state is %s with epoch %d", s.State, s.Epoch)
		}
		return nil
	})
	mustHave(t, c, ids)
	checkDocuments(t, c, s)
}

func TestBucketAwayQuorumGoesOn(t *testing.T) {
	t.Parallel()
	c, s, p := startBehindProxy(t)
	ids := submit(t, c, 10)
	for attempt := 1; ; attempt++ {
		waitFlushed(t, c)
		leader := c.WaitLeader()
		before, err := leader.Status()
		if err != nil {
			t.Fatal(err)
		}
		p.SetDown(true)
		more, err := goOn(c, leader)
		p.SetDown(false)
		ids = append(ids, more...)
		if err == nil {
			break
		}
		// No node can become leader without the bucket. If the machine is too busy for raft's
		// heartbeats, an election happens nevertheless: then the outage of the bucket was not
		// the only fault.
		after, e := c.WaitLeader().Status()
		if attempt == 3 || e != nil || after.Term == before.Term {
			t.Fatal(err, e)
		}
		t.Logf("an election came between: %v", err)
	}
	waitFlushed(t, c)
	mustHave(t, c, ids)
	checkDocuments(t, c, s)
}

// goOn adds jobs during the outage of the bucket, until the lag is visible.
func goOn(c *cluster.Cluster, leader *cluster.Node) (ids []string, err error) {
	for i := range 10 {
		e, err := c.Client.Enqueue(c.Context(10*time.Second), client.NewJob{Type: "t", Payload: []byte(fmt.Sprint(i))})
		if err != nil {
			return ids, err
		}
		ids = append(ids, e.JobID)
	}
	return ids, cluster.Poll(10*time.Second, func() error {
		s, err := leader.Status()
		if err != nil {
			return err
		}
		if s.State != v1.StateLeader || s.LagEntries == 0 || s.FlushError == "" {
			return fmt.Errorf("%s is %s, its lag %d entries, its flush error %q", leader.Name, s.State, s.LagEntries, s.FlushError)
		}
		return nil
	})
}

// A node that has run before starts without the bucket, because the quorum needs it. A new node
// does not start, because its URL is most likely wrong.
func TestStartWhileTheBucketIsAway(t *testing.T) {
	t.Parallel()
	c, s, p := startBehindProxy(t)
	ids := submit(t, c, 10)
	waitFlushed(t, c)
	leader, follower := c.WaitLeader(), c.Follower()
	if err := follower.Stop(); err != nil {
		t.Fatal(err)
	}
	p.SetDown(true)
	follower.Start()
	c.Eventually(20*time.Second, "the node to catch up without the bucket", func() error {
		ours, err := leader.Status() // or whatever it is by now: it has everything
		if err != nil {
			return err
		}
		theirs, err := follower.Status()
		if err != nil {
			return err
		}
		if theirs.LSN != ours.LSN {
			return fmt.Errorf("it is at %s, the leader at %s", theirs.LSN, ours.LSN)
		}
		return nil
	})
	stranger := cluster.New(t, cluster.Options{Nodes: 1, Bucket: s.URL()})
	stranger.Nodes[0].Start()
	stranger.Eventually(30*time.Second, "the new node to give up", func() error {
		if stranger.Nodes[0].Running() {
			return errors.New("it runs")
		}
		return nil
	})
	if log := stranger.Nodes[0].Log(); !strings.Contains(log, "is not usable") {
		t.Fatalf("it does not say why:\n%s", log)
	}
	p.SetDown(false)
	c.Eventually(20*time.Second, "the node to prove the bucket", func() error {
		if !strings.Contains(follower.Log(), "the bucket answers, and keeps its conditions") {
			return errors.New("nothing in its log")
		}
		return nil
	})
	waitFlushed(t, c)
	mustHave(t, c, ids)
}

// submitTo is like submit, but with a new client: a client that knows a stopped leader would
// first wait for it.
func submitTo(t *testing.T, c *cluster.Cluster, n int) []string {
	t.Helper()
	cl := c.NewClient()
	defer cl.Close()
	ids := make([]string, 0, n)
	for i := range n {
		e, err := cl.Enqueue(c.Context(20*time.Second), client.NewJob{Type: "t", Payload: []byte(fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	return ids
}

// waitFlushed waits until the bucket has every write, whichever node leads.
func waitFlushed(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Eventually(30*time.Second, "the bucket to have everything", func() error {
		leader, err := c.Leader()
		if err != nil {
			return err
		}
		s, err := leader.Status()
		if err != nil {
			return err
		}
		if s.State != v1.StateLeader || s.LSN != s.FlushedLSN {
			return fmt.Errorf("%s, %s: at %s, flushed %s: %s", leader.Name, s.State, s.LSN, s.FlushedLSN, s.FlushError)
		}
		return nil
	})
}
