package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/cluster/transport"
	"osqueue/internal/storagetest/script"
)

// The disk of a leader hangs while the leader is ahead of it. Nothing is answered. When the node is
// closed, its network is closed before anything that waits for the disk can continue: raft has
// entries in memory that the disk lacks.
func TestALeaderWithAHungDiskAnswersNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var hangs atomic.Pointer[string] // name of the node whose disk hangs
	release := make(chan struct{})
	members := l.start("n", 3, func(cfg *Config) {
		cfg.LogStallLimit = time.Second
		own := cfg.Name
		cfg.BeforeLogWrite = func() {
			if name := hangs.Load(); name != nil && *name == own {
				<-release
			}
		}
	})
	lead := l.leader(members...)
	if _, _, err := lead.Propose(t.Context(), script.Enqueue("a")); err != nil {
		t.Fatal(err)
	}
	unhang := sync.OnceFunc(func() { close(release) })
	defer unhang()
	hangs.Store(&lead.cfg.Name)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, _, err := lead.Propose(ctx, script.Enqueue("b"))
		answered <- err
	}()
	select {
	case <-lead.Fatal():
	case <-ctx.Done():
		t.Fatal("the node does not end")
	}
	if lead.Job("b") != nil {
		t.Error("the leader has applied an entry that its disk lacks")
	}
	order := &closeOrder{Transport: lead.net, ctx: lead.ctx, closed: make(chan struct{})}
	lead.Node.net = order
	ended := make(chan struct{})
	go func() {
		lead.stop()
		close(ended)
	}()
	<-order.closed
	if order.continued {
		t.Error("what waits for the disk continues before the network is closed")
	}
	if err := <-answered; err == nil {
		t.Error("a write was answered that the leader's disk lacks")
	}
	unhang()
	<-ended
}

// closeOrder records whether the node's context has ended when its network is closed.
type closeOrder struct {
	transport.Transport
	ctx       context.Context
	once      sync.Once
	continued bool
	closed    chan struct{}
}

// Close implements transport.Transport.
func (c *closeOrder) Close() error {
	c.once.Do(func() {
		c.continued = c.ctx.Err() != nil
		close(c.closed)
	})
	return c.Transport.Close()
}
