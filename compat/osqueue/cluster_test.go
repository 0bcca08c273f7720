package osqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"osqueue/api"
	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/past"
	"osqueue/cluster/plane"
	"osqueue/compat"
	"osqueue/internal/storagetest"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) {
	storagetest.AtOnce(16) // the tests wait for elections
	goleak.VerifyTestMain(m)
}

// nodes is a cluster in this process: real nodes with raft, each with a handler around
// its HTTP API.
type nodes struct {
	t      *testing.T
	bucket *mem.Bucket
	all    []*node
}

type node struct {
	address string
	listen  net.Listener
	node    *cluster.Node
	api     *api.Server
	handler *Handler
	served  chan error
}

// pageJobs is the number of jobs in a page of the API in these tests.
const pageJobs = 50

// start starts a cluster of n nodes and waits until one of them leads.
func start(t *testing.T, n int, limits Limits) *nodes {
	t.Helper()
	c := &nodes{t: t, bucket: mem.New()}
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.all = append(c.all, &node{address: ln.Addr().String(), listen: ln})
	}
	t.Cleanup(c.stop)
	for i := range c.all {
		c.open(i, limits)
	}
	c.leader()
	return c
}

func (c *nodes) open(i int, limits Limits) {
	c.t.Helper()
	cfg := cluster.DefaultConfig()
	for k, n := range c.all {
		cfg.Peers = append(cfg.Peers, cluster.PeerAddr{Name: fmt.Sprintf("n%d", k+1), HTTP: n.address})
	}
	n := c.all[i]
	cfg.Name, cfg.Memory, cfg.Bucket = cfg.Peers[i].Name, true, c.bucket
	cfg.RaftAddr, cfg.HTTPAdvertise = "127.0.0.1:0", n.address
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaseTimeout = 3*time.Second, 3*time.Second, 3*time.Second
	if len(c.all) == 1 {
		cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	}
	cfg.Client = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var err error
	if n.node, err = cluster.Open(cfg); err != nil {
		c.t.Fatal(err)
	}
	states := past.New(past.Config{Bucket: c.bucket, Key: cluster.DocumentKey, MaxBytes: 1 << 28})
	c.t.Cleanup(states.Close)
	n.api = api.New(core.Config{
		Backend:  n.node,
		Past:     states,
		Internal: map[string]http.Handler{cluster.PeerPath: n.node.PeerHandler()},
		DialNode: plane.NewDialer(plane.DialerConfig{StatusPath: v1.PathStatus}).DialContext,
		Limits:   core.Limits{ListJobs: pageJobs},
		Wrap: func(native http.Handler, calls core.Calls) http.Handler {
			n.handler = New(Config{Native: native, Calls: calls, Limits: limits})
			return n.handler
		},
	})
	n.served = make(chan error, 1)
	go func() {
		others := make(chan error, 1)
		go func() { others <- n.api.ServeNodes(n.node.PeerListener(), cluster.PeerPath, n.node.PeerHandler()) }()
		err := n.api.Serve(n.listen)
		if nodes := <-others; !errors.Is(nodes, http.ErrServerClosed) && !errors.Is(nodes, net.ErrClosed) {
			err = errors.Join(err, nodes)
		}
		n.served <- err
	}()
}

// leader returns the node that leads.
func (c *nodes) leader() *node {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, n := range c.all {
			if _, self := n.node.Leader(); self {
				return n
			}
		}
	}
	c.t.Fatal("no node leads")
	return nil
}

// follower returns a node that knows another one as the leader.
func (c *nodes) follower() *node {
	c.t.Helper()
	leader := c.leader()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, n := range c.all {
			if at, self := n.node.Leader(); !self && at == leader.address {
				return n
			}
		}
	}
	c.t.Fatal("no node follows")
	return nil
}

func (c *nodes) stop() {
	for _, n := range c.all {
		if n.api == nil {
			_ = n.listen.Close()
			continue
		}
		n.handler.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := errors.Join(n.api.Shutdown(ctx), <-n.served, n.node.Close()); err != nil {
			c.t.Error(err)
		}
		cancel()
	}
	_ = c.bucket.Close()
}

// asked returns the nodes that each flow runs against.
func (c *nodes) asked() map[string]*node {
	return map[string]*node{"leader": c.leader(), "follower": c.follower()}
}

// reset removes all jobs from the queue.
func (c *nodes) reset() {
	c.t.Helper()
	for {
		var list v1.JobList
		readJSON(c.t, request(c.t, "GET", c.leader().address, v1.PathJobs+"?status=all", ""), &list)
		if len(list.Jobs) == 0 {
			return
		}
		for _, j := range list.Jobs {
			if j.Status == v1.StatusInProgress {
				body := `{}`
				if j.WorkerID != nil {
					body = fmt.Sprintf(`{"workerId":%q}`, *j.WorkerID)
				}
				request(c.t, "POST", c.leader().address, v1.PathJobs+"/"+j.ID+"/complete", body)
			}
			request(c.t, "DELETE", c.leader().address, v1.PathJobs+"/"+j.ID, "")
		}
	}
}

// A result is an answer over HTTP.
type result struct {
	status int
	header http.Header
	body   string
}

// fresh opens a connection for each request, so that none outlives a test.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}

// request sends a request with a JSON body; headers come in pairs.
func request(t testing.TB, method, address, path, body string, headers ...string) result {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+address+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := fresh.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return result{resp.StatusCode, resp.Header, string(got)}
}

func readJSON(t testing.TB, r result, into any) {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("answered %d %s", r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), into, compat.Lenient); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}

func mustURL(path string) *url.URL { return &url.URL{Path: path} }
