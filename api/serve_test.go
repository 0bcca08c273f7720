package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// served is a rig that listens on the loopback.
type served struct {
	*rig
	addr   string
	result chan error
}

func newServed(t *testing.T, change ...func(*core.Config)) *served {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{rig: newRig(t, change...), addr: ln.Addr().String(), result: make(chan error, 1)}
	go func() { s.result <- s.s.Serve(ln) }()
	t.Cleanup(func() {
		s.end()
		if err := <-s.result; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// post writes a request by hand.
func post(conn io.Writer, path, body string) {
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
}

func (s *served) read(conn io.Reader) answer {
	s.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: body}
}

// A long poll outlives the timeouts of reading and writing.
func TestLongPollOutlivesTheTimeouts(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.Timeouts.Body, c.Timeouts.Answer = 100*time.Millisecond, 100*time.Millisecond })
	conn := s.dial()
	post(conn, "/v1/jobs/claim", `{"waitMs":60000,"workerId":"w"}`)
	eventually(t, "the claim sleeps", s.asleep(1))
	start := time.Now()
	eventually(t, "the timeouts are over", func() bool { return time.Since(start) > 300*time.Millisecond })
	if !s.asleep(1)() {
		t.Fatal("the claim was ended by a timeout")
	}
	s.submit("a", "t")
	if got := ok[v1.ClaimedJob](t, s.read(conn)); got.JobID != "a" {
		t.Fatalf("got %+v", got)
	}
}

// A client that goes away does not get jobs.
func TestLongPollEndsWithItsConnection(t *testing.T) {
	s := newServed(t)
	conn := s.dial()
	post(conn, "/v1/jobs/claim", `{"waitMs":60000}`)
	eventually(t, "the claim sleeps", s.asleep(1))
	_ = conn.Close()
	eventually(t, "the claim has ended", s.asleep(0))
	s.submit("a", "t")
	if st := s.node.Job("a").Status.String(); st != v1.StatusUnclaimed {
		t.Fatalf("the job is %s", st)
	}
}

func TestShutdownEndsLongPollsAtOnce(t *testing.T) {
	s := newServed(t)
	conn := s.dial()
	post(conn, "/v1/jobs/claim", `{"waitMs":60000}`)
	eventually(t, "the claim sleeps", s.asleep(1))
	start := time.Now()
	s.end()
	if took := time.Since(start); took > 3*time.Second {
		t.Fatalf("it took %s", took)
	}
	refused(t, s.read(conn), http.StatusServiceUnavailable, v1.TagClosing)
}

// A connection opened in advance, by a client or another node, is no request: net/http alone would give it
// five seconds.
func TestShutdownDoesNotWaitForUnusedConnections(t *testing.T) {
	s := newServed(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.s.ServeNodes(ln, "/cluster/", http.NotFoundHandler()) }()
	conn := s.dial()
	ofNode, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ofNode.Close()
	for name, of := range map[string]*freshConns{"client": &s.s.fresh, "node": &s.s.freshNodes} {
		eventually(t, "the connection of a "+name+" is accepted", func() bool { return of.count() == 1 })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := s.s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); err != nil || len(b) > 0 {
		t.Fatalf("read %q, %v", b, err)
	}
	eventually(t, "the connection is forgotten", func() bool { return s.s.fresh.count() == 0 })
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

func (f *freshConns) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// Requests that do not wait are answered, for as long as there is time.
func TestShutdownLetsRequestsEnd(t *testing.T) {
	s := newServed(t)
	stall := make(chan struct{})
	s.node.set(func(f *fakeNode) { f.stall = stall })
	conn := s.dial()
	post(conn, "/v1/jobs", `{"id":"a"}`)
	eventually(t, "the request is under way", func() bool { return s.inFlight() == 1 })
	ended := make(chan error, 1)
	go func() { ended <- s.s.Shutdown(context.Background()) }()
	<-s.s.Closing.Done()
	close(stall)
	ok[v1.Enqueued](t, s.read(conn))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestShutdownCutsOffWhatTakesTooLong(t *testing.T) {
	s := newServed(t)
	stall := make(chan struct{})
	s.node.set(func(f *fakeNode) { f.stall = stall })
	conn := s.dial()
	post(conn, "/v1/jobs", `{}`)
	eventually(t, "the request is under way", func() bool { return s.inFlight() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.s.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "before all requests had ended") {
		t.Fatalf("got %v", err)
	}
	close(stall)
	eventually(t, "the request has ended", func() bool { return s.inFlight() == 0 })
}

// inFlight returns the metric of that name, without the request for the metric itself.
func (g *rig) inFlight() int {
	body := string(g.do("GET", "/metrics", "").body)
	_, rest, _ := strings.Cut(body, "\nosqueue_http_requests_in_flight ")
	n := 0
	_, _ = fmt.Sscan(rest, &n)
	return n - 1
}

func TestSlowAndLargeRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	s := newServed(t, func(c *core.Config) { c.Timeouts.Header, c.Timeouts.Body = 100*time.Millisecond, 150*time.Millisecond })
	t.Run("head", func(t *testing.T) {
		t.Parallel()
		conn := s.dial()
		_, _ = io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost:")
		if b, err := io.ReadAll(conn); err != nil || strings.HasPrefix(string(b), "HTTP/1.1 200") {
			t.Fatalf("answered %q, %v", b, err)
		}
	})
	t.Run("body", func(t *testing.T) {
		t.Parallel()
		conn := s.dial()
		_, _ = io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
		refused(t, s.read(conn), http.StatusRequestTimeout, v1.TagTimeout)
	})
	t.Run("large head", func(t *testing.T) {
		t.Parallel()
		conn := s.dial()
		_, _ = io.WriteString(conn, "GET /status HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")
		if a := s.read(conn); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Fatalf("answered %d", a.status)
		}
	})
}

func TestServeSaysWhyItEnds(t *testing.T) {
	g := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := g.s.Serve(ln); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Fatalf("got %v", err)
	}
}

func TestInternalHandlers(t *testing.T) {
	g := newRig(t, func(c *core.Config) {
		c.Internal = map[string]http.Handler{"/cluster/v1/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
		})}
	})
	sameJSON(t, g.do("PUT", "/cluster/v1/join", "").body, "PUT /cluster/v1/join")
	refused(t, g.do("GET", "/cluster/v2/join", ""), http.StatusNotFound, v1.TagNoRoute)
}

// No route hides another one, and the variable is as it was sent.
func TestEachRouteIsMatched(t *testing.T) {
	g := newRig(t)
	for _, rt := range g.s.routes {
		for _, object := range []string{"a", "a%2Fb", "..", "claim", "%C3%A9"} {
			path := variable.ReplaceAllString(rt.Path, object)
			if path == rt.Path {
				object = ""
			}
			second := ""
			if strings.Count(rt.Path, "{") == 2 {
				second = object
			}
			got, of, part := g.s.routeOf(httptest.NewRequest(rt.Method, path, http.NoBody))
			if got == nil || got.Method != rt.Method || got.Path != rt.Path || of != object || part != second {
				t.Errorf("%s %s: route %v of %q and %q", rt.Method, path, got, of, part)
			}
		}
	}
}

func TestRequestsAreLoggedAtDebugOnly(t *testing.T) {
	for level, want := range map[hclog.Level]bool{hclog.Info: false, hclog.Debug: true} {
		var log strings.Builder
		g := newRig(t, func(c *core.Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Level: level, Output: &log}) })
		g.do("POST", "/v1/jobs", `{}`, "X-Request-Id", "req-7")
		g.do("POST", "/v1/jobs", `{`)
		line := log.String()
		if got := strings.Contains(line, "req-7") && strings.Contains(line, "lsn=3-2") && strings.Contains(line, "n1-1"); got != want {
			t.Errorf("%s: logged %q", level, line)
		}
		if !want && line != "" {
			t.Errorf("%s: logged %q", level, line)
		}
	}
}
