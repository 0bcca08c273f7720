package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// pair is a follower before a leader that listens on the loopback.
type pair struct {
	follower, leader *rig
	address          string           // of the leader
	seen             chan http.Header // of the requests that the leader gets
}

func newPair(t *testing.T, change ...func(*core.Config)) *pair {
	t.Helper()
	p := &pair{leader: newRig(t), seen: make(chan http.Header, 100)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.seen <- r.Header.Clone()
		p.leader.s.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	p.address = srv.Listener.Addr().String()
	p.follower = newFollower(t, p.address, change...)
	return p
}

// newNearPair has no network between the two, so that a bubble's time passes while
// one waits for the other.
func newNearPair(t *testing.T, change ...func(*core.Config)) *pair {
	t.Helper()
	p := &pair{leader: newRig(t)}
	p.follower = newFollower(t, "leader:1", append(change, func(c *core.Config) { c.Transport = nearTransport{p.leader.s} })...)
	return p
}

// nearTransport has a handler answer in this process.
type nearTransport struct{ http.Handler }

func (n nearTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		n.ServeHTTP(w, r)
	}()
	select {
	case <-done:
		return w.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// newFollower returns a node that knows a leader elsewhere.
func newFollower(t *testing.T, leader string, change ...func(*core.Config)) *rig {
	t.Helper()
	g := newRig(t, change...)
	g.node.set(func(f *fakeNode) { f.leader, f.lead = leader, false })
	return g
}

func TestForwardedHeaders(t *testing.T) {
	p := newPair(t)
	r := request("POST", "/v1/jobs", `{}`, "Prefer", v1.PreferStrict, "X-Forwarded-For", "192.0.2.7", "Connection", "X-Hop", "X-Hop", "1",
		"X-Request-Id", "r1")
	r.RemoteAddr = "198.51.100.9:4711"
	a := p.follower.send(r)
	ok[v1.Enqueued](t, a)
	h := <-p.seen
	if h.Get(v1.HeaderForwarded) != "n1" || h.Get("X-Forwarded-For") != "198.51.100.9" || h.Get("X-Hop") != "" ||
		h.Get("X-Request-Id") != "r1" || h.Get("Prefer") != v1.PreferStrict {
		t.Fatalf("the leader got %v", h)
	}
	if got := a.header["Preference-Applied"]; len(got) != 1 || got[0] != v1.PreferStrict {
		t.Fatalf("Preference-Applied %q", got)
	}
}

// handled answers each connection to a leader with f.
func handled(t *testing.T, f func(net.Conn, *http.Request)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				f(conn, r)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-ended })
	return ln.Addr().String()
}

func TestLeaderThatDiesBeforeItAnswers(t *testing.T) {
	g := newFollower(t, handled(t, func(net.Conn, *http.Request) {}))
	p := refused(t, g.do("POST", "/v1/jobs", `{"id":"a"}`), http.StatusServiceUnavailable, v1.TagLeaderGone)
	if p.Committed != v1.CommittedUnknown {
		t.Fatalf("problem %+v", p)
	}
}

// If a connection dies after an earlier answer, a transport repeats requests with a key that
// marks them as safe to repeat. The result of the first attempt would then be unknown.
func TestNothingIsSentTwice(t *testing.T) {
	var mu sync.Mutex
	got := 0
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got++
		first := got == 1
		mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		if !first {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jobId":"a","lsn":"3-2"}`)
	}))
	defer leader.Close()
	g := newFollower(t, leader.Listener.Addr().String())
	const key = "Idempotency-Key"
	if a := g.do("POST", "/v1/jobs", `{}`, key, "k"); a.status != http.StatusOK {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	p := refused(t, g.do("POST", "/v1/jobs", `{}`, key, "k"), http.StatusServiceUnavailable, v1.TagLeaderGone)
	mu.Lock()
	defer mu.Unlock()
	if got != 2 || p.Committed != v1.CommittedUnknown {
		t.Fatalf("the leader got %d requests for 2; problem %+v", got, p)
	}
}

func TestLeaderThatIsSilent(t *testing.T) {
	release := make(chan struct{})
	g := newFollower(t, handled(t, func(net.Conn, *http.Request) { <-release }),
		func(c *core.Config) { c.Timeouts.Forward = 50 * time.Millisecond })
	defer close(release)
	p := refused(t, g.do("POST", "/v1/jobs", `{}`), http.StatusServiceUnavailable, v1.TagLeaderGone)
	if p.Committed != v1.CommittedUnknown || !strings.Contains(p.Detail, "50ms") {
		t.Fatalf("problem %+v", p)
	}
}

// A request that waits for a frozen leader ends soon after another leader is known: a write
// with an unknown outcome, a read with the answer of the new leader, or of this node.
func TestForwardsAreCutWhenAnotherLeads(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	old := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release }))
	defer old.Close()
	defer close(release)
	frozen := old.Listener.Addr().String()
	g := newFollower(t, frozen)
	next := newRig(t)
	srv := httptest.NewServer(next.s)
	defer srv.Close()
	for what, change := range map[string]func(*fakeNode){
		"another node": func(f *fakeNode) { f.leader = srv.Listener.Addr().String() },
		"this node":    func(f *fakeNode) { f.leader, f.lead = "self:1", true },
	} {
		g.node.set(func(f *fakeNode) { f.leader, f.lead = frozen, false })
		begun := time.Now()
		write, read := g.later("POST", "/v1/jobs", `{}`), g.later("GET", "/v1/jobs", "")
		<-arrived
		<-arrived
		g.node.set(change)
		p := refused(t, <-write, http.StatusServiceUnavailable, v1.TagLeaderGone)
		if p.Committed != v1.CommittedUnknown || !strings.Contains(p.Detail, "stopped being the leader") {
			t.Errorf("%s: problem %+v", what, p)
		}
		if a := <-read; a.status != http.StatusOK {
			t.Errorf("%s: the read got %d %s", what, a.status, a.body)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
}

// Half an answer must not pass for a whole one.
func TestLeaderThatDiesInItsAnswer(t *testing.T) {
	g := newFollower(t, handled(t, func(conn net.Conn, _ *http.Request) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jobId\":")
	}))
	srv := httptest.NewServer(g.s)
	defer srv.Close()
	res, err := srv.Client().Post(srv.URL+"/v1/jobs", "application/json", strings.NewReader(`{}`))
	if err != nil {
		return
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Fatalf("answered %d %q without an error", res.StatusCode, body)
	}
}

func TestForwardedBodyIsBounded(t *testing.T) {
	p := newPair(t, func(c *core.Config) { c.MaxBody = 100 })
	refused(t, p.follower.do("POST", "/v1/jobs", `{"payload":"`+strings.Repeat("x", 100)+`"}`),
		http.StatusRequestEntityTooLarge, v1.TagTooLarge)
	r := request("POST", "/v1/jobs", `{"payload":"`+strings.Repeat("x", 100)+`"}`)
	r.ContentLength = -1
	refused(t, p.follower.send(r), http.StatusRequestEntityTooLarge, v1.TagTooLarge)
	if len(p.seen) != 0 {
		t.Fatal("the leader got a part of it")
	}
}

// Many requests share few connections to the leader.
func TestForwardsReuseConnections(t *testing.T) {
	leader := newRig(t)
	srv := httptest.NewUnstartedServer(leader.s)
	var opened int
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened++ // in the goroutine that accepts
		}
	}
	srv.Start()
	g := newFollower(t, srv.Listener.Addr().String())
	for range 50 {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{}`))
	}
	g.end()
	srv.Close()
	if opened != 1 {
		t.Fatalf("%d connections for 50 requests", opened)
	}
}
