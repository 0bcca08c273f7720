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
)

// startOnStore starts a cluster on a store of its own.
func startOnStore(t *testing.T, flags ...string) (*cluster.Cluster, *store.Store) {
	t.Helper()
	s := store.Start(t)
	return cluster.Start(t, cluster.Options{Bucket: s.URL(), Flags: flags}), s
}

// checkBucket stops the cluster and checks all objects of the bucket, as `osqueue verify` does. No
// leader may have taken a write of its own cluster for an edit.
func checkBucket(t *testing.T, c *cluster.Cluster, s *store.Store) {
	t.Helper()
	c.StopAll()
	s.Settle()
	ctx := c.Context(time.Minute)
	report, err := archive.Verify(ctx, s.Bucket(), "queue.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	err = s.Bucket().List(ctx, "conflicts/", func(i storage.Info) bool {
		t.Errorf("a document was taken for one that somebody had edited: %s", i.Key)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A node that has run before starts without the bucket, because the quorum needs it. A new node
// does not start, because its URL is most likely wrong.
func TestStartWhileTheBucketIsAway(t *testing.T) {
	t.Parallel()
	c, s := startOnStore(t)
	p := s.Proxy(t)
	batch, err := c.Client.EnqueueBatch(c.Context(20*time.Second), make([]client.NewJob, 10))
	if err != nil {
		t.Fatal(err)
	}
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
	for _, id := range batch.JobIDs {
		if _, err := c.Client.Job(c.Context(20*time.Second), id); err != nil {
			t.Errorf("job %s: %v", id, err)
		}
	}
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

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
