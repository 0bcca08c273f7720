package client

import (
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
		if _, err := cl.Enqueue(bounded(t), NewJob{}); err != nil {
			t.Fatal(err)
		}
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
