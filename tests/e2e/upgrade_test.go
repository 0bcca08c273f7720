package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/fsm"
	"osqueue/tests/cluster"
)

// A rolling upgrade under load to a release with one feature level more, a node of which goes back in the middle:
// no call fails, nothing is lost, and both releases lead. The level is raised when no node holds it any more. From
// then on a node of the release before ends and says why.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	next, err := cluster.NextBinary()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{})
	p := produce(t, c.Client)
	restart := func(n *cluster.Node, binary string, flags ...string) {
		t.Helper()
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.Binary = binary
		n.Start(flags...)
		follows(c, n)
		p.more(c)
	}
	hold := []string{"--feature-level", fmt.Sprint(fsm.BaseLevel)}
	restart(c.Nodes[0], next, hold...)
	restart(c.Nodes[1], next, hold...)
	restart(c.Nodes[0], "")
	restart(c.Nodes[2], next, hold...)
	restart(c.Nodes[0], next, hold...)
	leaders := make(map[string]bool)
	for range 3 { // a leader that stops hands over to the others, which run both releases at some time above
		n := c.WaitLeader()
		leaders[n.Name] = true
		restart(n, next, hold...)
	}
	if len(leaders) < 2 {
		t.Errorf("only %v led", leaders)
	}
	if err := levelIs(c, fsm.BaseLevel); err != nil {
		t.Errorf("while it is held: %v", err)
	}
	for _, n := range c.Nodes {
		restart(n, next)
	}
	c.Eventually(longPatience, "the level to be raised", func() error { return levelIs(c, fsm.BaseLevel+1) })
	p.more(c)
	p.stop()
	if n, err := stored(c); err != nil || n != int(p.acked.Load()) {
		t.Errorf("%d jobs of %d that were acknowledged (%v)", n, p.acked.Load(), err)
	}

	n := c.Follower()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n.Binary = ""
	n.Start()
	c.Eventually(longPatience, n.Name+" to end", ended(n))
	if log := n.Log(); !strings.Contains(log, "upgrade this node") && !strings.Contains(log, "not a usable snapshot") {
		t.Errorf("%s does not say why it ended:\n%s", n.Name, n.LogTail(5))
	}
}

// producer enqueues jobs until it is stopped.
type producer struct {
	acked  atomic.Int64
	cancel context.CancelFunc
	done   chan struct{}
}

func produce(t *testing.T, cl *client.Client) *producer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &producer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			if _, err := cl.Enqueue(context.Background(), client.NewJob{Type: "t"}); err != nil {
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
	c.Eventually(longPatience, "more jobs", func() error {
		if n := p.acked.Load(); n < goal {
			return fmt.Errorf("%d of %d", n, goal)
		}
		return nil
	})
}

// levelIs returns an error unless all nodes have a level.
func levelIs(c *cluster.Cluster, want uint32) error {
	for _, n := range c.Nodes {
		s, err := n.Status()
		if err != nil {
			return err
		}
		if s.FeatureLevel != want {
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
