package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "osqueue/api/v1"
	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/model"
)

// wholeLog keeps raft's log in one piece, so that it can be replayed.
var wholeLog = []string{"--raft-snapshot-threshold", "1000000"}

func startOnS3(t *testing.T, flags ...string) (*cluster.Cluster, *cluster.S3) {
	t.Helper()
	s3 := cluster.StartS3(t)
	c := cluster.Start(t, cluster.Options{Bucket: s3.URL(), Env: s3.Env(), Flags: append(flags, wholeLog...)})
	return c, s3
}

// checkDocuments holds every accepted version of queue.json against the
// invariants, and against the log of one node.
func checkDocuments(t *testing.T, c *cluster.Cluster, s3 *cluster.S3) {
	t.Helper()
	c.StopAll()
	versions := s3.Versions()
	if err := model.Documents(versions); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, n := range c.Nodes {
		log, err := n.RaftLog(^uint64(0))
		if err == nil {
			var compared int
			if compared, err = model.Replay(log, versions); err == nil {
				t.Logf("%d versions of queue.json, %d states compared with the log of %s", len(versions), compared, n.Name)
				return
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
	}
	t.Fatal(errors.Join(errs...))
}

func TestLeaderKilledUnderLoad(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
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
	checkDocuments(t, c, s3)
}

func TestFollowerKilledAndReturns(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
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
	checkDocuments(t, c, s3)
}

func TestAllKilledAndRestarted(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
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
	checkDocuments(t, c, s3)
}

func TestGracefulRollLosesNoRequest(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
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
	checkDocuments(t, c, s3)
}

func TestTwoClustersOnOneBucket(t *testing.T) {
	t.Parallel()
	s3 := cluster.StartS3(t)
	opt := cluster.Options{Bucket: s3.URL(), Env: s3.Env(), Flags: []string{"--broker-timeout", "4s", "--broker-heartbeat", "1s"}}
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

	// The first comes back: it must stand by, although it has a disk and a
	// quorum of its own.
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
	if err := model.Documents(s3.Versions()); err != nil {
		t.Fatal(err)
	}
}

// standsBy reports that a node has been elected by raft but found the document
// in the hands of another cluster.
func standsBy(s v1.Status) bool {
	return s.Fence.State == "standby" && strings.Contains(s.Fence.Reason, "another broker")
}

func TestFlushAnswersLost(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
	leader := c.WaitLeader()
	s3.LoseAnswers(5)
	ids := submit(t, c, 20)
	c.Eventually(20*time.Second, "the answers to be lost", func() error {
		ids = append(ids, submit(t, c, 1)...)
		if n := s3.Lost(); n < 5 {
			return fmt.Errorf("%d of 5", n)
		}
		return nil
	})
	waitFlushed(t, c)
	s, err := leader.Status()
	if err != nil {
		t.Fatal(err)
	}
	if s.State != "leader" || s.Epoch != 1 {
		t.Fatalf("a lost answer cost the leadership: state %s, epoch %d", s.State, s.Epoch)
	}
	mustHave(t, c, ids)
	checkDocuments(t, c, s3)
}

// A leader is stopped with a PUT under way and another takes over. The late PUT
// must be refused by its condition, and the old leader, when it wakes, must
// step down and take nothing back.
func TestStaleLeaderResumed(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
	ids := submit(t, c, 20)
	waitFlushed(t, c)
	old := c.WaitLeader()
	late := s3.HoldNext()
	ids = append(ids, submit(t, c, 1)...)
	select {
	case <-late.Arrived():
	case <-c.Context(20 * time.Second).Done():
		t.Fatal("no PUT came in")
	}
	old.Pause()
	next := c.WaitOtherLeader(old)
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
		if s.State == "leader" || s.Leader == nil || *s.Leader != next.Name {
			return fmt.Errorf("its state is %s, it does not follow %s", s.State, next.Name)
		}
		return nil
	})
	mustHave(t, c, ids)
	checkDocuments(t, c, s3)
}

func TestBucketAwayQuorumGoesOn(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
	ids := submit(t, c, 10)
	waitFlushed(t, c)
	s3.SetDown(true)
	ids = append(ids, submit(t, c, 10)...)
	leader := c.WaitLeader()
	c.Eventually(20*time.Second, "the lag to show", func() error {
		s, err := leader.Status()
		if err != nil {
			return err
		}
		if s.LagEntries == 0 || s.FlushError == "" {
			return fmt.Errorf("lag %d, flush error %q", s.LagEntries, s.FlushError)
		}
		return nil
	})
	s3.SetDown(false)
	waitFlushed(t, c)
	mustHave(t, c, ids)
	checkDocuments(t, c, s3)
}

// A node that has run before starts without the bucket: the quorum needs it.
// A new one does not: its URL is most likely wrong.
func TestStartWhileTheBucketIsAway(t *testing.T) {
	t.Parallel()
	c, s3 := startOnS3(t)
	ids := submit(t, c, 10)
	waitFlushed(t, c)
	follower := c.Follower()
	if err := follower.Stop(); err != nil {
		t.Fatal(err)
	}
	s3.SetDown(true)
	follower.Start()
	c.Eventually(20*time.Second, "the node to catch up without the bucket", func() error {
		ours, err := c.WaitLeader().Status()
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
	stranger := cluster.New(t, cluster.Options{Nodes: 1, Bucket: s3.URL(), Env: s3.Env()})
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
	s3.SetDown(false)
	c.Eventually(20*time.Second, "the node to prove the bucket", func() error {
		if !strings.Contains(follower.Log(), "the bucket answers, and keeps its conditions") {
			return errors.New("nothing in its log")
		}
		return nil
	})
	waitFlushed(t, c)
	mustHave(t, c, ids)
}

// submitTo is submit with a client that knows nothing yet: that of a stopped
// leader would first wait for it.
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

// waitFlushed waits until the bucket has everything.
func waitFlushed(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	leader := c.WaitLeader()
	c.Eventually(30*time.Second, "the bucket to have everything", func() error {
		s, err := leader.Status()
		if err != nil {
			return err
		}
		if s.LSN != s.FlushedLSN {
			return fmt.Errorf("at %s, flushed %s: %s", s.LSN, s.FlushedLSN, s.FlushError)
		}
		return nil
	})
}
