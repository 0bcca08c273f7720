package client

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	wire "osqueue/client/api/v1/frame"
)

// fault is a reaction of a node that replaces its answer to a request.
type fault func(n *node, w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter))

// fakeCluster is three HTTP servers over one small queue.
type fakeCluster struct {
	t     *testing.T
	nodes []*node

	mu      sync.Mutex
	leader  int // index; -1: none
	term    uint64
	index   uint64
	fault   func(n *node, r *http.Request) fault // nil, or nil for a request: none
	added   map[string]int                       // enqueues that took effect, by id
	bodies  map[string]string                    // their payloads
	claims  map[string]string                    // answers by request id
	ended   map[string]string                    // how a token's claim ended
	repeats int                                  // writes that were recognised as done
	log     []string                             // node, method, path, query of all but /status
	last    http.Header                          // of the last of these
	answers map[string]string                    // fixed answers by path, for reads
	keyed   map[string]keyedAnswer               // by idempotency key
	level   string                               // how safe writes are said to be; "": as by an older server
	// scripts are answers to writes by "METHOD path": to the n-th that takes
	// effect. Their bodies are in bodies, under the same name.
	scripts map[string]func(n int, body []byte) string
}

type node struct {
	c     *fakeCluster
	i     int
	srv   *httptest.Server
	conns map[net.Conn]struct{}
	total int // connections ever
	stuck chan struct{}
}

func newCluster(t *testing.T) *fakeCluster {
	t.Helper()
	c := &fakeCluster{
		t: t, term: 1,
		added: map[string]int{}, bodies: map[string]string{}, claims: map[string]string{}, ended: map[string]string{},
		answers: map[string]string{}, keyed: map[string]keyedAnswer{},
		scripts: map[string]func(int, []byte) string{},
	}
	for i := range 3 {
		n := &node{c: c, i: i, conns: map[net.Conn]struct{}{}, stuck: make(chan struct{})}
		n.srv = httptest.NewUnstartedServer(n)
		n.srv.Config.ConnState = n.connState
		n.srv.Start()
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			close(n.stuck)
			n.srv.CloseClientConnections()
			n.srv.Close()
		}
	})
	return c
}

func (n *node) connState(_ net.Conn, s http.ConnState) {
	if s == http.StateNew {
		n.c.mu.Lock()
		defer n.c.mu.Unlock()
		n.total++
	}
}

// kill closes a node's port and connections.
func (c *fakeCluster) kill(i int) {
	c.nodes[i].srv.Listener.Close()
	c.nodes[i].srv.CloseClientConnections()
}

// elect makes node i the leader of a new term; -1 means no leader.
func (c *fakeCluster) elect(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = i
	c.term++
}

func (c *fakeCluster) setFault(f func(n *node, r *http.Request) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// faultFor makes the first times writes to a path run into f.
func (c *fakeCluster) faultFor(path string, times int, f fault) {
	var mu sync.Mutex
	c.setFault(func(_ *node, r *http.Request) fault {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(r.URL.Path, path) || times == 0 {
			return nil
		}
		times--
		return f
	})
}

func (c *fakeCluster) urls() []string {
	out := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = n.srv.URL
	}
	return out
}

func (c *fakeCluster) client(change func(*Config)) *Client {
	c.t.Helper()
	cfg := Config{Servers: c.urls(), AttemptTimeout: 2 * time.Second, RetryFor: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	cl, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cl.Close() })
	return cl
}

// newPair returns a cluster and a client of it.
func newPair(t *testing.T) (*fakeCluster, *Client) {
	t.Helper()
	c := newCluster(t)
	return c, c.client(nil)
}

// added enqueues a job, or ends the test.
func added(t *testing.T, cl *Client, job NewJob) {
	t.Helper()
	_, err := cl.Enqueue(bounded(t), job)
	check(t, err)
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == wire.Path { // as a server without streams; the tests of the stream use a real one
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == v1.PathStatus {
		n.status(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n.c.note(n, r)
	answer := func(w http.ResponseWriter) { n.answer(w, r, body) }
	if f := n.c.faultOf(n, r); f != nil {
		f(n, w, r, answer)
		return
	}
	answer(w)
}

func (c *fakeCluster) note(n *node, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf("%d %s %s", n.i, r.Method, r.URL.RequestURI()))
	c.last = r.Header.Clone()
}

func (c *fakeCluster) faultOf(n *node, r *http.Request) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		return nil
	}
	return c.fault(n, r)
}

// counts returns the number of jobs, claims and repeated writes.
func (c *fakeCluster) counts() (jobs, claims, repeats int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jobs, claims, repeats = len(c.added), len(c.claims), c.repeats
	c.repeats = 0
	return jobs, claims, repeats
}

func (c *fakeCluster) done(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.added[key]
}

func (c *fakeCluster) header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Get(name)
}

// requests returns the requests recorded until now.
func (c *fakeCluster) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.log...)
}

func (n *node) status(w http.ResponseWriter, r *http.Request) {
	if f := n.c.faultOf(n, r); f != nil {
		f(n, w, r, func(http.ResponseWriter) {})
		return
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	s := v1.Status{NodeID: fmt.Sprint("n", n.i+1), State: v1.StateFollower, Term: n.c.term}
	if n.c.leader == n.i {
		s.State = v1.StateLeader
	}
	writeJSON(w, 200, s)
}

// answer does what a node does: the leader decides, others forward.
func (n *node) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	n.c.mu.Lock()
	leader := n.c.leader
	n.c.mu.Unlock()
	switch {
	case leader < 0:
		refuse(w, 503, v1.TagNoLeader, v1.CommittedNo, 0)
	case r.URL.Query().Get(v1.ParamConsistency) == v1.ConsistencyLocal || r.URL.Query().Has(v1.ParamMinLSN) || leader == n.i:
		n.c.decide(w, r, body)
	default:
		target, _ := url.Parse(n.c.nodes[leader].srv.URL)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
			refuse(w, 503, v1.TagLeaderGone, v1.CommittedUnknown, 0)
		}
		proxy.Transport = &http.Transport{DisableKeepAlives: true}
		proxy.ServeHTTP(w, r)
	}
}

func (c *fakeCluster) decide(w http.ResponseWriter, r *http.Request, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodGet {
		w.Header().Set(v1.HeaderLSN, c.lsn())
		if a, ok := c.answers[r.URL.RequestURI()]; ok {
			io.WriteString(w, a)
			return
		}
		io.WriteString(w, c.answers[r.URL.Path])
		return
	}
	key := r.Header.Get(v1.HeaderIdempotencyKey)
	request := r.Method + " " + r.URL.RequestURI() + " " + string(body)
	if old, ok := c.keyed[key]; ok {
		old.repeat(w, c, request)
		return
	}
	c.index++
	rec := httptest.NewRecorder()
	rec.Header().Set(v1.HeaderLSN, c.lsn())
	if c.level != "" {
		rec.Header().Set(v1.HeaderCommitted, c.level)
	}
	c.apply(rec, r, body)
	if key != "" && rec.Code/100 == 2 {
		c.keyed[key] = keyedAnswer{request: request, rec: rec}
	}
	copyAnswer(w, rec)
}

// keyedAnswer is the answer to a write with an idempotency key.
type keyedAnswer struct {
	request string
	rec     *httptest.ResponseRecorder
}

// repeat gives the first answer again, if the write is the same.
func (a keyedAnswer) repeat(w http.ResponseWriter, c *fakeCluster, request string) {
	if a.request != request {
		refuse(w, 409, v1.TagRequestConflict, v1.CommittedNo, 0)
		return
	}
	c.repeats++
	w.Header().Set(v1.HeaderReplayed, "true")
	copyAnswer(w, a.rec)
}

func copyAnswer(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	w.Write(rec.Body.Bytes())
}

// apply performs a write. It counts requests that it does not implement by method
// and path.
func (c *fakeCluster) apply(w http.ResponseWriter, r *http.Request, body []byte) {
	route := r.Method + " " + r.URL.EscapedPath()
	if a, ok := c.scripts[route]; ok {
		c.added[route]++
		c.bodies[route] = string(body)
		io.WriteString(w, a(c.added[route], body))
		return
	}
	switch {
	case r.URL.Path == v1.PathJobs:
		c.enqueue(w, body)
	case r.URL.Path == v1.PathClaim:
		c.claim(w, body)
	case r.URL.Path == v1.PathHeartbeat, r.URL.Path == v1.PathComplete, r.URL.Path == v1.PathJobsBatch:
		io.WriteString(w, c.answers[r.URL.Path])
	case strings.HasPrefix(r.URL.Path, v1.PathJobs+"/"):
		c.report(w, r.URL.Path, body)
	default:
		writeJSON(w, 200, v1.WorkerAnswer{LSN: c.lsn()})
	}
}

func (c *fakeCluster) lsn() string { return fmt.Sprintf("%d-%d", c.term, c.index) }

func (c *fakeCluster) enqueue(w http.ResponseWriter, body []byte) {
	var j v1.NewJob
	if err := json.Unmarshal(body, &j); err != nil || j.ID == "" {
		refuse(w, 400, v1.TagBadRequest, v1.CommittedNo, 0)
		return
	}
	duplicate := c.added[j.ID] > 0
	if duplicate {
		c.repeats++
	} else {
		c.added[j.ID]++
		c.bodies[j.ID] = string(j.Payload)
	}
	writeJSON(w, 200, v1.Enqueued{JobID: j.ID, LSN: c.lsn(), Duplicate: duplicate})
}

func (c *fakeCluster) claim(w http.ResponseWriter, body []byte) {
	var in v1.Claim
	if err := json.Unmarshal(body, &in); err != nil {
		refuse(w, 400, v1.TagBadRequest, v1.CommittedNo, 0)
		return
	}
	if c.claims[in.RequestID] != "" {
		c.repeats++
	} else {
		token := uint64(1)<<32 + c.index
		out, _ := json.Marshal(v1.Claimed{LSN: c.lsn(), Jobs: []v1.ClaimedJob{{
			JobID: fmt.Sprint("job", token), Token: token, Attempts: 1, LeaseMs: 30000, Payload: []byte("null"),
		}}})
		c.claims[in.RequestID] = string(out)
	}
	io.WriteString(w, c.claims[in.RequestID])
}

// report accepts one end of each token's claim, and its repetitions.
func (c *fakeCluster) report(w http.ResponseWriter, path string, body []byte) {
	var in struct {
		Token uint64 `json:"token"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		refuse(w, 400, v1.TagBadRequest, v1.CommittedNo, 0)
		return
	}
	if in.Token == 0 {
		c.added[path]++
		w.WriteHeader(http.StatusNoContent)
		return
	}
	key := fmt.Sprint(in.Token)
	switch c.ended[key] {
	case "":
		c.ended[key] = path
	case path:
		c.repeats++
	default:
		refuse(w, 409, v1.TagNotRunning, v1.CommittedNo, 0)
		return
	}
	writeJSON(w, 200, v1.Reported{LSN: c.lsn()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.MarshalWrite(w, v)
}

func refuse(w http.ResponseWriter, status int, tag, committed string, retryMs int64) {
	writeJSON(w, status, v1.Problem{Status: status, Tag: tag, Detail: "detail of " + tag, Committed: committed, RetryAfterMs: retryMs})
}

// The faults.

// cutAfter does what is asked and cuts the connection instead of answering.
func cutAfter(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
	answer(httptest.NewRecorder())
	cut(w)
}

// cutBefore cuts the connection and does nothing.
func cutBefore(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { cut(w) }

func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// half does what is asked and breaks off in the middle of the answer.
func half(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
	rec := httptest.NewRecorder()
	answer(rec)
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", rec.Body.Len(), rec.Body.String()[:rec.Body.Len()/2])
	buf.Flush()
}

func garbage(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
	answer(httptest.NewRecorder())
	io.WriteString(w, "<html>welcome to the hotel</html>")
}

// frozen does not answer until the test ends.
func frozen(n *node, _ http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
	select {
	case <-n.stuck:
	case <-r.Context().Done():
	}
}

// refusing answers with a problem.
func refusing(status int, tag, committed string, retryMs int64) fault {
	return func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		refuse(w, status, tag, committed, retryMs)
	}
}
