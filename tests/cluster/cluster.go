package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster/link"
)

// TB is the part of *testing.T that the harness needs. Programs that measure clusters implement
// it themselves.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	TempDir() string
	Cleanup(fn func())
}

// Options configure a cluster. The zero value is three nodes with a directory as bucket.
type Options struct {
	Nodes  int      // 0 is three
	Prefix string   // of the nodes' names; "" is n
	Bucket string   // URL; "" is a directory of the test's own
	Binary string   // the program; "" is that of the function Binary
	Flags  []string // further flags of serve, for every node
	Env    []string // further environment, for every process

	// Links puts a proxy on every link: between the nodes, from clients and workers to the
	// nodes, and from all of them to a bucket over HTTP.
	Links bool
	// TLS gives every node a certificate, and the clients of the test a token of the role
	// admin. The nodes enforce both, unless Flags have another --security.
	TLS bool
	// Legacy gives every node a listener for legacy clients, on Node.Legacy.
	Legacy bool
	// FaultClock runs a program whose nodes' wall clocks can be set (SetClock).
	FaultClock bool
}

// Cluster is a set of node processes with one bucket.
type Cluster struct {
	tb     TB
	dir    string
	opt    Options
	net    string // the first three bytes of its addresses
	binary string
	Nodes  []*Node
	Client *client.Client

	secure     *secure   // nil: no TLS
	links      *link.Net // nil: there are none
	nodeBucket string    // the bucket's URL as nodes have it
	workers    []*Worker
	shared     bool   // no test may stop its nodes
	suffix     string // of names, see Own
}

// nets numbers the address ranges of this process.
var nets atomic.Uint32

// marks has the listeners that mark the nets of this process.
var marks sync.Map

// The ports are the same on every address.
const (
	httpPort   = 8080
	legacyPort = 8090
	raftPort   = 7080
)

// Start starts a cluster and waits until it has an active leader. It ends with
// the test.
func Start(tb TB, opt Options) *Cluster {
	tb.Helper()
	c := New(tb, opt)
	for _, n := range c.Nodes {
		n.Start()
	}
	c.WaitLeader()
	if c.secure != nil {
		c.Eventually(LeaderTimeout, "the first token", c.tokenWorks)
	}
	return c
}

// New makes a cluster whose nodes have not been started.
func New(tb TB, opt Options) *Cluster {
	tb.Helper()
	if opt.Nodes == 0 {
		opt.Nodes = 3
	}
	if opt.Prefix == "" {
		opt.Prefix = "n"
	}
	build := Binary
	switch {
	case opt.Binary != "":
		build = func() (string, error) { return opt.Binary, nil }
	case opt.FaultClock:
		build = FaultBinary
	}
	binary, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{tb: tb, dir: tb.TempDir(), opt: opt, net: FreshNet(), binary: binary}
	if c.opt.Bucket == "" {
		c.opt.Bucket = "file://" + filepath.Join(c.dir, "bucket")
	}
	c.nodeBucket = c.opt.Bucket
	for i := range opt.Nodes {
		c.Nodes = append(c.Nodes, c.newNode(i+1))
	}
	if opt.TLS {
		c.secure = newSecure(tb, c)
	}
	if opt.Links {
		c.openLinks()
	}
	if opt.FaultClock {
		for _, n := range c.Nodes {
			n.writeClock(clockFault{})
		}
	}
	c.Client = c.NewClient()
	tb.Cleanup(c.cleanUp)
	return c
}

// newNode prepares the i-th node.
func (c *Cluster) newNode(i int) *Node {
	name := fmt.Sprintf("%s%d", c.opt.Prefix, i)
	n := &Node{
		process: process{cluster: c, Name: name, Dir: filepath.Join(c.dir, name)},
		HTTP:    c.address(i, httpPort),
		Raft:    c.address(i, raftPort),
		Legacy:  c.address(i, legacyPort),
	}
	n.httpBind, n.raftBind = n.HTTP, n.Raft
	return n
}

// address returns an address of the cluster.
func (c *Cluster) address(host, port int) string { return fmt.Sprintf("%s.%d:%d", c.net, host, port) }

// FreshNet returns the first three bytes of loopback addresses that no other process on this
// machine uses. They contain the process id and a
// counter. A listener of this process on another address of the net marks it as taken, because
// the ids of two processes can lead to the same net.
func FreshNet() string {
	for range 1000 {
		n := uint32(os.Getpid())*64 + nets.Add(1)
		fresh := fmt.Sprintf("127.%d.%d", 1+(n>>8)%250, n%256)
		if mark, err := net.Listen("tcp", fresh+".254:7999"); err == nil {
			marks.Store(fresh, mark) // until this process ends
			return fresh
		}
	}
	panic("cluster: 1000 nets of loopback addresses are taken")
}

func (c *Cluster) cleanUp() {
	c.endClients()
	for _, n := range c.Nodes {
		n.Kill()
	}
	if c.links != nil {
		c.links.Close()
	}
	if c.tb.Failed() {
		for _, n := range c.Nodes {
			c.tb.Logf("log of %s:\n%s", n.Name, n.LogTail(60))
		}
		c.logWorkers()
	}
	for _, n := range c.Nodes {
		if err := n.unmount(); err != nil {
			c.tb.Logf("%v", err)
		}
	}
}

func (c *Cluster) endClients() {
	c.Client.Close()
	for _, w := range c.workers {
		w.Kill()
	}
}

func (c *Cluster) logWorkers() {
	for _, w := range c.workers {
		c.tb.Logf("log of %s:\n%s", w.Name, w.LogTail(20))
	}
}

// NewClient returns a client of all nodes. The caller closes it.
func (c *Cluster) NewClient() *client.Client {
	cfg := client.Config{Servers: c.Servers(), RetryFor: 20 * time.Second}
	if c.secure != nil {
		cfg.TLS, cfg.Token = c.secure.config, c.secure.token.Text
	}
	cl, err := client.New(cfg)
	if err != nil {
		c.tb.Fatal(err)
	}
	return cl
}

// Servers returns the HTTP addresses of all nodes.
func (c *Cluster) Servers() []string {
	all := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		all[i] = n.HTTP
	}
	return all
}

// Bucket returns the cluster's bucket URL, without links.
func (c *Cluster) Bucket() string { return c.opt.Bucket }

// LeaderTimeout bounds every wait for a leader.
const LeaderTimeout = 30 * time.Second

// WaitLeader waits for an active leader and returns it.
func (c *Cluster) WaitLeader() *Node {
	c.tb.Helper()
	return c.WaitOtherLeader(nil)
}

// WaitOtherLeader waits for an active leader that is not old.
func (c *Cluster) WaitOtherLeader(old *Node) *Node {
	c.tb.Helper()
	var found *Node
	c.Eventually(LeaderTimeout, "an active leader", func() error {
		var err error
		found, err = c.leader(old)
		return err
	})
	return found
}

// WaitVoters waits for an active leader whose cluster has every node as a voter. A node that
// came back with an empty disk has no vote until it has caught up; meanwhile a cluster of
// three nodes does not survive the loss of another one.
func (c *Cluster) WaitVoters() {
	c.tb.Helper()
	c.Eventually(LeaderTimeout, "every node to be a voter", func() error {
		leader, err := c.Leader()
		if err != nil {
			return err
		}
		s, err := leader.Status()
		if err != nil {
			return err
		}
		for _, n := range c.Nodes {
			voter := func(p v1.Peer) bool { return p.Name == n.Name && p.Voter }
			if !slices.ContainsFunc(s.Peers, voter) {
				return fmt.Errorf("%s is none: %+v", n.Name, s.Peers)
			}
		}
		return nil
	})
}

// Leader returns the current active leader.
func (c *Cluster) Leader() (*Node, error) { return c.leader(nil) }

func (c *Cluster) leader(except *Node) (*Node, error) {
	var states []string
	for _, n := range c.Nodes {
		s, err := n.Status()
		if err == nil && s.State == "leader" && n != except {
			return n, nil
		}
		states = append(states, fmt.Sprintf("%s: %s/%s %s %v", n.Name, s.State, s.Fence.State, s.Fence.Reason, err))
	}
	return nil, fmt.Errorf("no leader: %s", strings.Join(states, "; "))
}

// Follower returns a running node that is not the leader.
func (c *Cluster) Follower() *Node {
	c.tb.Helper()
	leader := c.WaitLeader()
	for _, n := range c.Nodes {
		if n != leader && n.Running() {
			return n
		}
	}
	c.tb.Fatal("no follower is running")
	return nil
}

// StopAll stops every running node gracefully, as soon as it serves.
func (c *Cluster) StopAll() {
	c.tb.Helper()
	for _, n := range c.Nodes {
		if !n.Running() {
			continue
		}
		c.Eventually(LeaderTimeout, n.Name+" to serve", func() error {
			_, err := n.Status()
			return err
		})
		if err := n.Stop(); err != nil {
			c.tb.Fatalf("%s did not stop gracefully: %v", n.Name, err)
		}
	}
}

// KillAll ends all nodes with SIGKILL, almost at the same time.
func (c *Cluster) KillAll() {
	var ends []chan struct{}
	for _, n := range c.Nodes {
		if done := n.signal(syscall.SIGKILL); done != nil {
			ends = append(ends, done)
		}
	}
	for _, done := range ends {
		<-done
	}
}

// Eventually calls cond repeatedly until it returns nil, and fails the test with its last error
// after timeout.
func (c *Cluster) Eventually(timeout time.Duration, what string, cond func() error) {
	c.tb.Helper()
	if err := Poll(timeout, cond); err != nil {
		c.tb.Fatalf("waited %v for %s: %v", timeout, what, err)
	}
}

// Poll calls cond repeatedly until it returns nil, and returns its last error after timeout.
func Poll(timeout time.Duration, cond func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := cond()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Context bounds the calls of a test.
func (c *Cluster) Context(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	c.tb.Cleanup(cancel)
	return ctx
}
