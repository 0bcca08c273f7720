package replay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/serve"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/web"
	"osqueue/tests/cluster"
)

// simulated runs a test in simulated time.
func simulated(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))) // the recordings are of this year
		f(t)
	})
}

// port selects the port that gets the requests.
type port bool

const (
	plainPort  port = false // of the API, without certificates
	legacyPort port = true  // for legacy clients, of nodes with certificates that ask for tokens
)

// dialer connects to nodes; nil: over the network of the computer.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// node is a node of the program in this process.
type node struct {
	name string
	http string // address of the API
	base string // URL of the port that gets the requests
	log  clitest.Buffer
}

// nodes are a cluster of two nodes, of which one leads.
type nodes struct {
	t     *testing.T
	all   [2]*node
	dial  dialer
	admin *client.Client // of both nodes, which may do everything
}

// run runs nodes in this process, as the command serve does, until the end of the test. n is nil if
// they use the network of the computer.
func run(t *testing.T, n *network, at port, bucket string, flags ...string) *nodes {
	t.Helper()
	c, dir, hosts := &nodes{t: t}, t.TempDir(), "127.0.0"
	var network web.Network
	if n == nil {
		hosts = cluster.FreshNet()
	} else {
		c.dial, network = n.dial, n.web()
	}
	address := func(i, port int) string { return fmt.Sprintf("%s.%d:%d", hosts, i+1, port) }
	for i := range c.all {
		c.all[i] = &node{name: fmt.Sprintf("n%d", i+1), http: address(i, 8080), base: "http://" + address(i, 8080)}
	}
	var secure *secured
	if at == legacyPort {
		secure = newSecured(t, dir)
	}
	c.admin = c.newAdmin(secure)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		c.admin.Close()
		end()
		running.Wait()
		for _, n := range c.all {
			if t.Failed() {
				t.Logf("log of %s:\n%s", n.name, n.log.String())
			}
		}
	})
	for i, n := range c.all {
		args := append([]string{
			"serve", "--name", n.name, "--data", filepath.Join(dir, n.name), "--bucket", bucket, "--flush-interval", "50ms", "--cors-origins", "any",
			"--http-addr", n.http, "--raft-addr", address(i, 7080), "--peers", "n1=" + c.all[0].http + ",n2=" + c.all[1].http,
		}, flags...)
		if secure != nil {
			n.base = "http://" + address(i, 8090)
			args = append(args, "--legacy-http-addr", address(i, 8090))
			args = append(args, secure.flags(t, n)...)
		}
		g := &view.Globals{In: strings.NewReader(""), Out: &n.log, Err: &n.log, Getenv: func(string) string { return "" }, Network: network}
		running.Go(func() {
			if code := view.Execute(ctx, args, g, view.NewRoot(g, serve.Commands(g)...)); code != view.ExitOK {
				t.Errorf("%s has ended with status %d", n.name, code)
			}
		})
	}
	return c
}

// newAdmin returns a client of the nodes.
func (c *nodes) newAdmin(s *secured) *client.Client {
	c.t.Helper()
	transport := &http.Transport{DialContext: c.dial}
	cfg := client.Config{Servers: []string{c.all[0].http, c.all[1].http}, Transport: transport, RetryFor: 20 * time.Second}
	var err error
	if s != nil {
		cfg.Token = s.token.Text
		if cfg.TLS, err = client.LoadTLS(filepath.Join(s.dir, certs.CAFile), "", ""); err != nil {
			c.t.Fatal(err)
		}
		transport.TLSClientConfig = cfg.TLS
	}
	admin, err := client.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return admin
}

// secured are the certificates of nodes, and the token of the role admin.
type secured struct {
	dir   string
	ca    *certs.Authority
	token auth.Secret
}

func newSecured(t *testing.T, dir string) *secured {
	t.Helper()
	ca, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{dir: dir, ca: ca, token: auth.New()}
	if err := s.token.Bootstrap().Write(filepath.Join(dir, "bootstrap.json")); err != nil {
		t.Fatal(err)
	}
	return s
}

// flags makes the certificate of a node, and returns the flags of serve for it.
func (s *secured) flags(t *testing.T, n *node) []string {
	t.Helper()
	host, _, _ := net.SplitHostPort(n.http)
	if _, err := s.ca.Issue(certs.Request{Kind: certs.Node, Name: n.name, Hosts: []string{host}, Lifetime: certs.NodeLifetime}, time.Now()); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	return []string{
		"--security", "on", "--bootstrap-token", file("bootstrap.json"),
		"--tls-ca", file(certs.CAFile), "--tls-cert", file(n.name + ".crt"), "--tls-key", file(n.name + ".key"),
	}
}

// eventually calls cond repeatedly until it returns nil.
func (c *nodes) eventually(what string, cond func() error) {
	c.t.Helper()
	if err := cluster.Poll(cluster.LeaderTimeout, cond); err != nil {
		c.t.Fatalf("waited for %s: %v", what, err)
	}
}

// leads returns the node that is the active leader and the other one.
func (c *nodes) leads() (leader, follower *node, err error) {
	for i, s := range c.admin.StatusAll(c.t.Context()) {
		if s.Err == nil && s.Status.State == v1.StateLeader {
			return c.all[i], c.all[1-i], nil
		}
		err = errors.Join(err, fmt.Errorf("%s is a %s: %w", c.all[i].name, s.Status.State, s.Err))
	}
	return nil, nil, err
}

// leader waits for an active leader, and returns it with the other node.
func (c *nodes) leader() (leader, follower *node) {
	c.t.Helper()
	c.eventually("an active leader", func() (err error) {
		if leader, follower, err = c.leads(); err == nil {
			_, err = c.admin.Stats(c.t.Context()) // the token counts from then on
		}
		return err
	})
	return leader, follower
}

// empty empties the queue.
func (c *nodes) empty(ctx context.Context) error {
	for {
		jobs := 0
		for j, err := range c.admin.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}}) {
			if err != nil {
				return err
			}
			jobs++
			if j.Status == v1.StatusInProgress { // it could not be deleted
				if err := c.admin.ForceComplete(ctx, j.ID, nil); err != nil {
					return err
				}
			}
		}
		if jobs == 0 {
			return nil
		}
		if _, err := c.admin.DeleteWhere(ctx, client.Filter{All: true}); err != nil {
			return err
		}
	}
}
