package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/limit"
)

// listen serves the API on a port, and counts the requests that it has.
func (g *rig) listen(t *testing.T) (at string, open *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open = new(atomic.Int64)
	var conns atomic.Int64 // net/http waits half a second before it closes one whose body it has not read
	state := func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Add(-1)
		}
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: state, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		g.s.ServeHTTP(w, r)
	})}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(ln) })
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
		eventually(t, "all connections to end", func() bool { return conns.Load() == 0 })
	})
	return ln.Addr().String(), open
}

// dialRaw sends text on a connection of its own.
func dialRaw(t *testing.T, at, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

const headOfJob = "POST " + v1.PathJobs + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

// A head that announces a body reserves no memory for it.
func TestAnAnnouncedBodyTakesNoMemory(t *testing.T) {
	g := newRig(t)
	at, open := g.listen(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 200
	for range n {
		dialRaw(t, at, fmt.Sprintf(headOfJob, 1_000_000)+"{")
	}
	eventually(t, "the requests", func() bool { return open.Load() == n })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d requests with one byte of body each take %d MiB", n, grown>>20)
	}
}

// Bodies that arrive share one budget. A request over the budget is refused, is certainly not
// committed, and can be sent again. The budget is returned when a request ends.
func TestBodiesShareABudget(t *testing.T) {
	budget := limit.NewBudget(400 << 10)
	g := newRig(t, func(c *core.Config) { c.Inflight = budget })
	at, _ := g.listen(t)
	slow := dialRaw(t, at, fmt.Sprintf(headOfJob, 300<<10)+`{"payload":"`+strings.Repeat("x", 200<<10))
	eventually(t, "the first half", func() bool { return budget.Used() >= 200<<10 })
	large := `{"payload":"` + strings.Repeat("y", 150<<10) + `"}`
	p := refused(t, g.do(http.MethodPost, v1.PathJobs, large), http.StatusServiceUnavailable, v1.TagOverloaded)
	if p.Committed != v1.CommittedNo || p.RetryAfterMs == 0 {
		t.Errorf("the refusal says committed %q, retry after %d ms", p.Committed, p.RetryAfterMs)
	}
	if _, err := io.WriteString(slow, strings.Repeat("x", 100<<10-len(`{"payload":"`)-2)+`"}`); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("the slow one: %v %v", answer, err)
	}
	_ = answer.Body.Close()
	eventually(t, "the budget to be free", func() bool { return budget.Used() == 0 })
	if a := g.do(http.MethodPost, v1.PathJobs, large); a.status >= 300 {
		t.Errorf("sent again: %d", a.status)
	}
}

// The jobs of a list take many times the memory of a short text, and count until they are committed.
func TestDecodedJobsCount(t *testing.T) {
	budget := limit.NewBudget(400 << 10)
	g := newRig(t, func(c *core.Config) { c.Inflight = budget })
	for _, path := range []string{v1.PathJobsBatch, v1.PathBatches} {
		jobs := func(n int) string { return `{"jobs":[` + strings.Repeat(`{"type":"a"},`, n-1) + `{"type":"a"}]}` }
		p := refused(t, g.do(http.MethodPost, path, jobs(1000)), http.StatusServiceUnavailable, v1.TagOverloaded)
		if p.Committed != v1.CommittedNo {
			t.Errorf("%s: committed %q", path, p.Committed)
		}
		answered := make(chan answer, 1)
		go func() { answered <- g.do(http.MethodPost, path+"?ack=object", jobs(200)) }()
		eventually(t, "the wait for the bucket", g.flushing(1))
		if used := budget.Used(); used > 16<<10 {
			t.Errorf("%s: 200 jobs that are committed take %d bytes", path, used)
		}
		g.node.flush()
		if a := <-answered; a.status >= 300 || budget.Used() != 0 {
			t.Errorf("%s: %d, and %d bytes are taken after it", path, a.status, budget.Used())
		}
	}
}

// An answer counts against the budget until the client has read it or is cut off.
func TestAnswersShareTheBudget(t *testing.T) {
	budget := limit.NewBudget(40 << 20)
	g := newRig(t, func(c *core.Config) { c.Inflight, c.MaxBody = budget, core.MaxBodyBytes })
	at, _ := g.listen(t)
	g.do(http.MethodPost, v1.PathJobs, fmt.Sprintf(`{"id":"j","payload":"%s"}`, strings.Repeat("x", 7<<20)))
	for i := 0; budget.Used() < 32<<20; i++ {
		if i == 20 {
			t.Fatalf("%d connections that do not read hold %d bytes", i, budget.Used())
		}
		before := budget.Used()
		dialRaw(t, at, "GET "+v1.PathJobs+"/j HTTP/1.1\r\nHost: x\r\nAccept: application/problem+json\r\n\r\n")
		eventually(t, "the answer to be counted", func() bool { return budget.Used() > before })
	}
	for _, path := range []string{"/j", "?status=all"} {
		refused(t, g.do(http.MethodGet, v1.PathJobs+path, ""), http.StatusServiceUnavailable, v1.TagOverloaded)
	}
}

// A list takes the memory of one item, also if its client does not read it, and breaks off visibly.
func TestListsAreSentInParts(t *testing.T) {
	budget := limit.NewBudget(40 << 20)
	g := newRig(t, func(c *core.Config) { c.Inflight, c.MaxBody = budget, core.MaxBodyBytes })
	at, open := g.listen(t)
	payload := strings.Repeat("x", 1<<20)
	for i := range 7 {
		g.do(http.MethodPost, v1.PathJobs, fmt.Sprintf(`{"id":"j%d","payload":"%s"}`, i, payload))
		g.do(http.MethodPut, fmt.Sprintf("%s/c%d", v1.PathCrons, i), fmt.Sprintf(`{"spec":"@yearly","job":{"payload":"%s"}}`, payload))
	}
	for _, path := range []string{v1.PathJobs, v1.PathCrons} {
		if a := g.do(http.MethodGet, path, ""); a.status != http.StatusOK || strings.Count(string(a.body), payload) != 7 || !json.Valid(a.body) {
			t.Errorf("%s: %d with %d bytes", path, a.status, len(a.body))
		}
		c := dialRaw(t, at, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAccept: application/problem+json\r\n\r\n")
		eventually(t, "the answer to begin", func() bool { return budget.Used() > 0 })
		if used := budget.Used(); used > 2<<20 {
			t.Errorf("%s: a list that is not read takes %d KiB", path, used>>10)
		}
		_ = c.Close()
		eventually(t, "the request to end", func() bool { return open.Load() == 0 && budget.Used() == 0 })
	}
}

// Memory for a body counts from the moment at which it is there, not when the bytes arrive.
func TestBodiesCountByTheirMemory(t *testing.T) {
	budget := limit.NewBudget(40 << 20)
	g := newRig(t, func(c *core.Config) { c.Inflight = budget })
	at, _ := g.listen(t)
	dialRaw(t, at, fmt.Sprintf(headOfJob, 1_000_000)+`{"payload":"`+strings.Repeat("x", 700<<10))
	eventually(t, "the body", func() bool { return budget.Used() >= 800_000 })
}

// The items of a few pages (Core.Pages) are looked for at one time. A request that waits for its turn takes no
// memory, and ends with its client. A reader that does not read holds no turn.
func TestPagesAreBuiltInTurn(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{v1.PathJobs, v1.PathCrons} {
		for range cap(g.s.Pages) {
			g.s.Pages <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		}()
		select {
		case <-ended:
			t.Errorf("%s was answered while all turns were taken", path)
		case <-time.After(50 * time.Millisecond):
		}
		cancel()
		<-ended
		for range cap(g.s.Pages) {
			<-g.s.Pages
		}
		for range 2 * cap(g.s.Pages) {
			if a := g.do(http.MethodGet, path, ""); a.status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
}

// HEAD has the bounds of GET: it is refused when the budget is used up, and it may wait.
func TestHeadHasTheBoundsOfGet(t *testing.T) {
	budget := limit.NewBudget(1 << 20)
	g := newRig(t, func(c *core.Config) { c.Inflight = budget })
	g.do(http.MethodPost, v1.PathJobs, `{"id":"x","payload":"`+strings.Repeat("x", 400<<10)+`"}`)
	budget.Add(900 << 10)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if a := g.do(method, v1.PathJobs+"/x", ""); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s over the budget: %d", method, a.status)
		}
		if !mayWait(httptest.NewRequest(method, v1.PathJobs+"/x?waitMs=1000", nil)) {
			t.Errorf("%s with waitMs cannot wait", method)
		}
	}
}
