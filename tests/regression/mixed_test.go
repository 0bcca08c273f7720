package regression

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/fsm"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
)

// release returns the program of the last release of an earlier feature level.
func release(t *testing.T, level uint32) string {
	t.Helper()
	path, err := cluster.Release(int(level))
	if err != nil {
		t.Skip(err)
	}
	return path
}

// sharedBucket returns a bucket that both releases can use: in a directory the newer release
// keeps the older one out.
func sharedBucket(t *testing.T) string { return store.StartKind(t, store.GoFakeS3).URL() }

// A rolling upgrade with jobs in flight: whichever release leads, the nodes of the other one
// continue to run. The level is raised when the last node is upgraded. From then on a node of
// the release before ends and says why.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	for _, from := range []uint32{fsm.BaseLevel, fsm.MaxLevel - 1} {
		t.Run(fmt.Sprintf("level %d", from), func(t *testing.T) {
			t.Parallel()
			rollingUpgrade(t, from)
		})
	}
}

func rollingUpgrade(t *testing.T, from uint32) {
	old := release(t, from)
	c := cluster.New(t, cluster.Options{Bucket: sharedBucket(t)})
	for _, n := range c.Nodes {
		n.Binary = old
		n.Start()
	}
	c.WaitLeader()
	p := produce(t, c)
	upgraded := 0
	for i, n := range c.Nodes {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.Binary = ""
		n.Start()
		follows(c, n)
		upgraded++
		target := n
		if i == 1 {
			target = c.Nodes[2] // the last old node leads two new ones
		}
		lead(t, c, target)
		p.more(c)
		if upgraded < len(c.Nodes) {
			level(c, from)
		}
		for _, other := range c.Nodes {
			follows(c, other)
		}
	}
	c.Eventually(patience, "the level to be raised", func() error { return levelIs(c, fsm.MaxLevel) })
	p.more(c)
	p.stop()
	if n, err := stored(c); err != nil || n != int(p.acked.Load()) {
		t.Errorf("%d jobs of %d that were acknowledged (%v)", n, p.acked.Load(), err)
	}

	n := c.Follower()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if from < fsm.Level10 {
		refusesSegments(t, c, n, old)
		n.Binary = ""
		n.Start("--raft-log", "bolt")
		follows(c, n)
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	n.Binary = old
	n.Start()
	c.Eventually(patience, n.Name+" to end", ended(n))
	if log := n.Log(); !strings.Contains(log, "upgrade this node") && !strings.Contains(log, "not a usable snapshot") {
		t.Errorf("%s does not say why it ended:\n%s", n.Name, n.LogTail(5))
	}
}

// refusesSegments starts a release from before segments on a raft log of segments. It must end, and not
// vote with an empty log.
func refusesSegments(t *testing.T, c *cluster.Cluster, n *cluster.Node, old string) {
	t.Helper()
	n.Binary = old
	n.Start()
	c.Eventually(patience, n.Name+" to end", ended(n))
	if log := n.LogTail(5); !strings.Contains(log, "raft.db: no such file or directory") {
		t.Fatalf("%s does not say that it has no log:\n%s", n.Name, log)
	}
}

// While --feature-level holds the level, the release before can take over the bucket, and the
// data directory after a start with --raft-log bolt. Without the flag the level is raised.
func TestDowngradeWhileTheLevelIsHeld(t *testing.T) {
	t.Parallel()
	for to := uint32(fsm.BaseLevel); to < fsm.MaxLevel; to++ {
		t.Run(fmt.Sprintf("level %d", to), func(t *testing.T) {
			t.Parallel()
			downgrade(t, to)
		})
	}
}

func downgrade(t *testing.T, to uint32) {
	old, hold := release(t, to), []string{"--feature-level", fmt.Sprint(to)}
	bolt := slices.Concat(hold, []string{"--raft-log", "bolt"})
	oldLevel := to
	if to == fsm.BaseLevel {
		oldLevel = 0 // its status has no level
	}
	c := cluster.New(t, cluster.Options{Nodes: 1, Bucket: sharedBucket(t)})
	n := c.Nodes[0]
	jobs := 0
	for _, step := range []struct {
		binary string
		flags  []string
		level  uint32
	}{
		{"", hold, to},
		{"", bolt, to},
		{old, nil, oldLevel},
		{"", hold, to},
		{"", nil, fsm.MaxLevel},
	} {
		n.Binary = step.binary
		n.Start(step.flags...)
		c.WaitLeader()
		c.Eventually(patience, fmt.Sprintf("level %d", step.level), func() error { return levelIs(c, step.level) })
		if _, err := c.Client.Enqueue(c.Context(patience), client.NewJob{Type: "t"}); err != nil {
			t.Fatal(err)
		}
		jobs++
		if got, err := stored(c); err != nil || got != jobs {
			t.Errorf("%d jobs, want %d (%v)", got, jobs, err)
		}
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// producer enqueues jobs until it is stopped.
type producer struct {
	acked  atomic.Int64
	cancel context.CancelFunc
	done   chan struct{}
}

func produce(t *testing.T, c *cluster.Cluster) *producer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &producer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			if _, err := c.Client.Enqueue(context.Background(), client.NewJob{Type: "t"}); err != nil {
				t.Errorf("enqueue: %v", err)
				return
			}
			p.acked.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *producer) stop() {
	p.cancel()
	<-p.done
}

// more waits for more jobs to be acknowledged.
func (p *producer) more(c *cluster.Cluster) {
	goal := p.acked.Load() + 10
	c.Eventually(patience, "more jobs", func() error {
		if n := p.acked.Load(); n < goal {
			return fmt.Errorf("%d of %d", n, goal)
		}
		return nil
	})
}

// lead kills leaders until n leads. The third node is paused meanwhile: a leader that
// stops in order hands over to the first node of the configuration that has all entries,
// so that two nodes could hand leadership to each other without end.
func lead(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	for range 20 {
		leader := c.WaitLeader()
		if leader == n {
			return
		}
		others := paused(c, leader, n)
		leader.Kill()
		leader.Start()
		follows(c, leader)
		for _, other := range others {
			other.Continue()
			follows(c, other)
		}
	}
	t.Fatalf("%s never leads", n.Name)
}

// paused pauses every node except the given ones.
func paused(c *cluster.Cluster, except ...*cluster.Node) (nodes []*cluster.Node) {
	for _, n := range c.Nodes {
		if !slices.Contains(except, n) {
			n.Pause()
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// follows waits until n knows a leader.
func follows(c *cluster.Cluster, n *cluster.Node) {
	c.Eventually(patience, n.Name+" to know a leader", func() error {
		s, err := n.Status()
		if err == nil && s.Leader == nil {
			err = errors.New("it knows none")
		}
		return err
	})
}

// level fails the test if a node has another level.
func level(c *cluster.Cluster, want uint32) {
	c.Eventually(patience, fmt.Sprintf("level %d", want), func() error { return levelIs(c, want) })
}

// levelIs checks the level of the nodes that state one.
func levelIs(c *cluster.Cluster, want uint32) error {
	for _, n := range c.Nodes {
		s, err := n.Status()
		if err != nil {
			return err
		}
		if s.FeatureLevel != want && (s.FeatureLevel != 0 || want > fsm.BaseLevel) {
			return fmt.Errorf("%s has level %d, not %d", n.Name, s.FeatureLevel, want)
		}
	}
	return nil
}

// stored returns the number of jobs that the leader has.
func stored(c *cluster.Cluster) (int, error) {
	s, err := c.WaitLeader().Status()
	return s.Tasks.Total, err
}
