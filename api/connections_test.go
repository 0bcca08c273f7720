package api

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func get(conn io.Writer, path string) {
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
}

// Over the bound a client learns why it is refused, health checks are answered, and a
// connection that closes frees its slot.
func TestConnectionsAreBounded(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.MaxConnections, c.ConnectionsEach = 2, 2 })
	used := []net.Conn{s.dial(), s.dial()}
	for _, c := range used {
		get(c, v1.PathStats)
		ok[v1.Stats](t, s.read(c))
	}
	spare := s.dial()
	for _, path := range []string{v1.PathHealthz, v1.PathReadyz} {
		get(spare, path)
		ok[v1.Health](t, s.read(spare))
	}
	get(spare, v1.PathStats)
	a := s.read(spare)
	refused(t, a, http.StatusServiceUnavailable, v1.TagOverloaded)
	if rest, err := io.ReadAll(spare); err != nil || len(rest) > 0 {
		t.Errorf("the refused connection stays open: %q %v", rest, err)
	}
	if err := used[0].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "room for a connection", func() bool {
		c := s.dial()
		defer c.Close()
		get(c, v1.PathStats)
		return s.read(c).status == http.StatusOK
	})
	open := 1 // used[1]
	for ; open <= 2+spareConnections; open++ {
		c := s.dial()
		get(c, v1.PathHealthz)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			break // closed at once
		}
	}
	if open > 2+spareConnections {
		t.Errorf("%d connections are open, over both bounds", open)
	}
}

// Lines that strangers can cause are bounded and counted; panics are all logged.
func TestErrorLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	std := newErrorLog(hclog.New(&hclog.LoggerOptions{Output: &out}))
	e := std.Writer().(*errorLog)
	e.limit = rate.NewLimiter(rate.Every(time.Hour), errorBurst)
	for i := range 1000 {
		std.Printf("http: TLS handshake error from 127.0.0.1:%d: tls: client offered only unsupported versions: [%x]", i, i)
	}
	if n := strings.Count(out.String(), "handshake error"); n != errorBurst {
		t.Errorf("%d lines of 1000 connections, want %d", n, errorBurst)
	}
	for range 5 {
		std.Print("http: panic serving 127.0.0.1:1: oops\nstack")
	}
	if n := strings.Count(out.String(), "[ERROR] http: panic"); n != 5 {
		t.Errorf("%d lines of 5 panics:\n%s", n, out.String())
	}
	e.limit = rate.NewLimiter(rate.Inf, 0)
	std.Print("http: TLS handshake error from 127.0.0.1:1: EOF")
	if want := fmt.Sprintf("EOF: skipped=%d\n", 1000-errorBurst); !strings.HasSuffix(out.String(), want) {
		t.Errorf("the log does not end with %q:\n%s", want, out.String()[max(0, out.Len()-200):])
	}
}

// An idle worker that registers every 10 s and has eight claims that wait costs at
// most two log entries a minute, and stays registered.
func TestIdleWorkersWriteNextToNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		settings := fsm.DefaultSettings()
		settings.WorkerTimeoutMs = 60_000
		if _, _, err := g.node.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
			Node: "n1", Address: "10.0.0.1:8080", Epoch: 2, Cluster: "c", Lineage: "l", Settings: settings,
		}}}); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(10 * time.Minute)
		var wg sync.WaitGroup
		clock := func() {
			for time.Now().Before(end) {
				time.Sleep(time.Second)
				g.node.tick(time.Second)
			}
		}
		wg.Go(clock)
		const workers = 5
		for i := range workers {
			name := fmt.Sprintf("w%d", i)
			g.do(http.MethodPost, "/v1/workers", fmt.Sprintf(`{"name":%q,"types":["t"]}`, name))
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(end) {
						g.do(http.MethodPost, "/v1/jobs/claim", fmt.Sprintf(`{"workerId":%q,"types":["t"],"waitMs":2000}`, name))
					}
				})
			}
			wg.Go(func() {
				for time.Now().Before(end) {
					time.Sleep(10 * time.Second)
					g.do(http.MethodPost, "/v1/workers", fmt.Sprintf(`{"name":%q,"types":["t"]}`, name))
				}
			})
		}
		before := g.node.written()
		wg.Wait()
		if n := g.node.written() - before; n > workers*2*10+workers || n < workers*5 {
			t.Errorf("%d idle workers wrote %d times in 10 minutes", workers, n)
		}
		if n := g.node.View().WorkerCount(); n != workers {
			t.Errorf("%d workers are registered, want %d", n, workers)
		}
	})
}

// A client that sends its whole request before it reads gets the answer to a body that is
// refused, however it ends the request.
func TestAnswerToARefusedBody(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	body := strings.Repeat("x", 12<<20)
	for name, head := range map[string]string{
		"kept":    fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)),
		"closed":  fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n", len(body)),
		"chunked": "Transfer-Encoding: chunked\r\n\r\n",
	} {
		for path, want := range map[string]int{"/v1/jobs": http.StatusRequestEntityTooLarge, "/nowhere": http.StatusNotFound} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				conn := s.dial()
				_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+head)
				to := io.WriteCloser(nopCloser{conn})
				if name == "chunked" {
					to = httputil.NewChunkedWriter(conn)
				}
				if _, err := io.WriteString(to, body); err != nil {
					t.Fatalf("the server closed the connection before it had read the body: %v", err)
				}
				_ = to.Close()
				if name == "chunked" {
					_, _ = io.WriteString(conn, "\r\n")
				}
				if got := s.read(conn); got.status != want {
					t.Errorf("answered %d %s", got.status, got.body)
				}
			})
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// The answer does not wait for a body that may never arrive.
func TestAnswerBeforeTheBody(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.Timeouts.Body = time.Hour })
	for _, head := range []string{"Content-Length: 12000000", "Connection: close\r\nContent-Length: 12000000", "Transfer-Encoding: chunked"} {
		conn := s.dial()
		_, _ = io.WriteString(conn, "POST /nowhere HTTP/1.1\r\nHost: x\r\n"+head+"\r\n\r\n")
		if got := s.read(conn); got.status != http.StatusNotFound || len(got.body) == 0 {
			t.Errorf("%s: answered %d %q", head, got.status, got.body)
		}
		_ = conn.Close()
	}
}
