package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"osqueue/api"
	"osqueue/api/core"
	"osqueue/client"
	"osqueue/cluster"
	"osqueue/storage"
	"osqueue/storage/mem"
)

// liveTimeout bounds the wait for the first leader.
const liveTimeout = 20 * time.Second

// liveCluster is a whole cluster in the process of the test: real nodes with raft and the HTTP API, on loopback,
// over a bucket in memory. Nothing of it survives Stop. Its methods are for one goroutine.
type liveCluster struct {
	bucket *mem.Bucket
	nodes  []*liveNode
}

// liveNode is one of its nodes.
type liveNode struct {
	address string
	listen  net.Listener
	node    *cluster.Node // nil: not started
	api     *api.Server
	served  chan error
}

// startLive starts a cluster of n nodes and waits until one of them leads.
func startLive(n int) (*liveCluster, error) {
	c := &liveCluster{bucket: mem.New()}
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), c.Stop())
		}
		c.nodes = append(c.nodes, &liveNode{address: ln.Addr().String(), listen: ln})
	}
	for i := range c.nodes {
		if err := c.open(i); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	if err := c.awaitLeader(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *liveCluster) open(i int) error {
	cfg := cluster.DefaultConfig()
	for k, n := range c.nodes {
		cfg.Peers = append(cfg.Peers, cluster.PeerAddr{Name: fmt.Sprintf("n%d", k+1), HTTP: n.address})
	}
	n := c.nodes[i]
	cfg.Name, cfg.Memory, cfg.Bucket = cfg.Peers[i].Name, true, storage.Bucket(c.bucket)
	cfg.RaftAddr, cfg.HTTPAdvertise = "127.0.0.1:0", n.address
	cfg.Client = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if len(c.nodes) == 1 { // no other node, so no silence to wait for
		cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	}
	opened, err := cluster.Open(cfg)
	if err != nil {
		return fmt.Errorf("open node %s: %w", cfg.Name, err)
	}
	n.node = opened
	n.api = api.New(core.Config{
		Backend:   opened,
		Internal:  map[string]http.Handler{cluster.PeerPath: opened.PeerHandler()},
		Transport: &http.Transport{DisableKeepAlives: true},
	})
	n.served = make(chan error, 1)
	go func() { n.served <- n.api.Serve(n.listen) }()
	return nil
}

func (c *liveCluster) awaitLeader() error {
	end := time.Now().Add(liveTimeout)
	for time.Now().Before(end) {
		if c.leader() >= 0 {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("no node leads after %v", liveTimeout)
}

// leader is the index of the node that leads; -1: none.
func (c *liveCluster) leader() int {
	for i, n := range c.nodes {
		if n.node == nil {
			continue
		}
		if _, self := n.node.Leader(); self {
			return i
		}
	}
	return -1
}

// Servers are the addresses of all nodes, also of those that were killed.
func (c *liveCluster) Servers() []string {
	out := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = n.address
	}
	return out
}

// Client returns a client of the cluster, with Config's defaults. The caller
// closes it.
func (c *liveCluster) Client() (*client.Client, error) {
	return client.New(client.Config{Servers: c.Servers()})
}

// KillLeader stops the node that leads, and waits until another one does.
func (c *liveCluster) KillLeader() error {
	i := c.leader()
	if i < 0 {
		return errors.New("no node leads")
	}
	if err := c.nodes[i].stop(); err != nil {
		return err
	}
	return c.awaitLeader()
}

// Stop stops all nodes. It may be called more than once.
func (c *liveCluster) Stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.stop())
	}
	return errors.Join(append(errs, c.bucket.Close())...)
}

// stop ends a node like a process that is killed: requests are cut.
func (n *liveNode) stop() error {
	if n.node == nil {
		_ = n.listen.Close() // it may be closed already
		return nil
	}
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.api.Shutdown(cut) // says that requests were cut
	err := errors.Join(<-n.served, n.node.Close())
	n.node = nil
	return err
}
