package client

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// A client of one server finds the members that came later, also when its server is gone for good.
func TestMembersAreLearned(t *testing.T) {
	c := newCluster(t)
	var peers []v1.Peer
	for _, url := range c.urls() {
		peers = append(peers, v1.Peer{HTTPAddress: strings.TrimPrefix(url, "http://")})
	}
	members := peers[:1]
	c.setFault(func(n *node, r *http.Request) fault {
		if r.URL.Path != v1.PathStatus {
			return nil
		}
		st := v1.Status{State: v1.StateFollower, Term: c.term, Peers: members}
		if c.leader == n.i {
			st.State = v1.StateLeader
		}
		return func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
			writeJSON(w, 200, st)
		}
	})
	c.answers[v1.PathStats] = `{}`
	c.elect(0)
	cl := c.client(func(cfg *Config) { cfg.Servers = cfg.Servers[:1] })
	enqueue := func() {
		t.Helper()
		added(t, cl, NewJob{})
	}
	enqueue()
	c.mu.Lock()
	members = peers
	c.mu.Unlock()
	cl.tracker.mu.Lock()
	cl.tracker.asked = time.Now().Add(-membersFor)
	cl.tracker.mu.Unlock()
	enqueue() // asks the leader for the members again
	for learned, ctx := 0, bounded(t); learned < len(peers); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d members are known", learned, len(peers))
		}
		cl.tracker.mu.Lock()
		learned = len(cl.tracker.members)
		cl.tracker.mu.Unlock()
	}
	c.kill(0)
	c.elect(2)
	if _, err := cl.Stats(bounded(t)); err != nil {
		t.Errorf("a read: %v", err)
	}
	enqueue()
	if got := c.requests(); got[len(got)-1] != "2 POST /v1/jobs" {
		t.Errorf("%v", got)
	}
	c.kill(1)
	c.kill(2)
	began := time.Now()
	if _, err := cl.Stats(bounded(t)); err == nil || time.Since(began) > 3*time.Second {
		t.Errorf("a read when all nodes are gone: %v after %v", err, time.Since(began))
	}
}

// An address of loopback is called only if a server on this machine names it, and other addresses
// only if a server elsewhere does.
func TestMembersThatAreNotCalled(t *testing.T) {
	for _, c := range []struct{ server, address, want string }{
		{"https://n1:8080", "n2:8080", "https://n2:8080"},
		{"http://127.0.0.1:8080", "127.0.0.1:8081", "http://127.0.0.1:8081"},
		{"http://localhost:8080", "[::1]:8081", "http://[::1]:8081"},
		{"https://n1:8080", "127.0.0.1:8081", ""},
		{"http://127.0.0.1:8080", "n2:8080", ""},
		{"https://n1:8080", "", ""},
		{"https://n1:8080", "n2:8080/x", ""},
		{"https://n1:8080", "user@n2:8080", ""},
	} {
		if got := memberURL(c.server, c.address); got != c.want {
			t.Errorf("%s names %s: %q, want %q", c.server, c.address, got, c.want)
		}
	}
}

// A client that prefers streams works with servers that do not know them.
func TestServersWithoutStreams(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.Protocol = ProtocolStream })
	for _, id := range []string{"a", "b", "c"} {
		if out, err := cl.Enqueue(bounded(t), NewJob{ID: id, Type: "t"}); err != nil || out.JobID != id {
			t.Fatalf("%+v, %v", out, err)
		}
	}
}

func TestUnknownProtocol(t *testing.T) {
	if _, err := New(Config{Servers: []string{"a"}, Protocol: "pigeon"}); err == nil {
		t.Error("accepted")
	}
}

// A report that another node leads starts a search, unless it comes from a server that this client does not
// take for the leader, or names that server itself.
func TestReportOfANewLeader(t *testing.T) {
	asked := make(chan string, 10)
	tr := newTracker([]string{"http://a:1", "http://b:1"}, func(_ context.Context, server string) view {
		asked <- server
		return view{server: server, leader: server == "http://b:1", term: 2}
	})
	defer tr.close()
	tr.leader = newTarget("http://a:1", true, 1)
	tr.moved("http://b:1", "a:1")
	tr.moved("http://a:1", "a:1")
	if l, _ := tr.known(); l == nil || len(asked) > 0 {
		t.Fatalf("the leader is given up: %+v", l)
	}
	tr.moved("http://a:1", "b:1")
	<-asked
	if l := tr.pick(bounded(t)); l.url != "http://b:1" {
		t.Errorf("picked %s", l.url)
	}
}

// An access token is sent without TLS to loopback addresses only, or if the server says http://.
func TestTokenInClear(t *testing.T) {
	t.Setenv("OSQUEUE_CA", "")
	t.Setenv("OSQUEUE_TOKEN", "")
	for server, ok := range map[string]bool{
		"10.0.0.1:8080": false, "node1": false, "[fd00::1]:8080": false, "localhost.example:8080": false, "127.0.0.1.example": false,
		"127.0.0.1:8080": true, "127.0.0.2": true, "localhost": true, "[::1]:8080": true,
		"http://10.0.0.1:8080": true, "https://node1:8080": true,
	} {
		for _, cfg := range []Config{{Token: "osq_x"}, {Token: "osq_x", TLS: new(tls.Config)}, {}} {
			cfg.Servers = []string{server}
			c, err := New(cfg)
			if err == nil {
				c.Close()
			}
			want := ok || cfg.TLS != nil || cfg.Token == ""
			if want != (err == nil) || err != nil && !strings.Contains(err.Error(), "without TLS") {
				t.Errorf("%s, token %q, TLS %t: %v", server, cfg.Token, cfg.TLS != nil, err)
			}
		}
	}
	t.Setenv("OSQUEUE_TOKEN", "osq_x")
	if _, err := New(Config{Servers: []string{"127.0.0.1:8080", "10.0.0.2:8080"}}); err == nil {
		t.Error("a token of the environment is sent in clear")
	}
}
