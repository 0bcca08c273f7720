package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/inflight"
)

// call is one request in progress. It is also the ResponseWriter of the request, and records
// the status. Calls are reused.
type call struct {
	http.ResponseWriter
	s      *Server
	r      *http.Request
	route  *route
	began  time.Time
	trace  string // id of the trace of the job that the call is about, for the debug log; "": none
	status int    // 0 until the head of the answer is written
	strict bool
	params url.Values // of the query, once parsed
	past   state      // that the call reads; nil: what the node has applied
	lsn    fsm.LSN    // of the answer; zero: none
	in     []byte     // the body of the request
	shared bool       // others refer to the memory of in, and may after the call
	newJob v1.NewJob  // of an enqueue
	out    []byte     // the body of the answer
	held   inflight.Hold

	outHeld int // bytes of out in held

	principal *auth.Principal // nil: none, or the server does not ask
	actsFor   string          // tenant whose object a caller without limits names
	admitted  bool            // the audit log takes the entry of the change

	isRead   bool   // in is the whole body
	key      string // of the write; "": none
	ack      ack    // that the write asks for
	replayed bool   // the answer repeats the first
}

var calls = sync.Pool{New: func() any { return new(call) }}

// keptBytes is the largest buffer that a call keeps for the next request.
const keptBytes = 64 << 10

func newCall(s *Server, rt *route, w http.ResponseWriter, r *http.Request) *call {
	c := calls.Get().(*call)
	c.ResponseWriter, c.s, c.r, c.route = w, s, r, rt
	c.held = s.cfg.Inflight.Hold()
	return c
}

// recycle returns c to the pool. After that c and its buffers must not be used.
func (c *call) recycle() {
	in, out := c.in[:0], c.out[:0]
	if cap(in) > keptBytes || c.shared {
		in = nil
	}
	if cap(out) > keptBytes {
		out = nil
	}
	*c = call{in: in, out: out}
	calls.Put(c)
}

// WriteHeader records the status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 && status >= http.StatusOK { // 1xx come before the answer
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write records the implicit status.
func (c *call) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap implements the interface of http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// viewer returns the tenant of the caller.
func (c *call) viewer() string {
	if c.principal == nil {
		return ""
	}
	return c.principal.Tenant
}

// tenant returns the tenant to whom the objects belong that the caller names.
func (c *call) tenant() string { return cmp.Or(c.viewer(), c.actsFor) }

// owned returns the name of the state for an object that the caller names, and named the one for the
// caller of an object of the state.
func (c *call) owned(name string) string  { return fsm.Owned(c.tenant(), name) }
func (c *call) named(owned string) string { return fsm.NameFor(c.viewer(), owned) }

// objectVariable is variable for the name of an object that has an owner.
func (c *call) objectVariable(exists exists) (string, error) {
	name, err := c.variable()
	if err == nil {
		c.actFor(&name, exists)
	}
	return name, err
}

// exists reports whether a state has the object of a name of the state.
type exists func(v *fsm.View, owned string) bool

func cronExists(v *fsm.View, owned string) bool   { return v.Cron(owned) != nil }
func batchExists(v *fsm.View, owned string) bool  { return v.Batch(owned) != nil }
func workerExists(v *fsm.View, owned string) bool { return v.Worker(owned) != nil || v.Held(owned) > 0 }

// actFor lets a caller without limits name the object of a tenant, as lists show it: with the tenant
// before the name. If that object exists, and none of the caller's own has the name, then the call acts
// for the tenant, and name becomes the name without the tenant.
func (c *call) actFor(name *string, exists exists) {
	tenant, rest, ok := fsm.CutTenant(*name)
	if !ok || c.tenant() != "" {
		return
	}
	if v := c.state().View(); !exists(v, *name) && exists(v, fsm.Owned(tenant, rest)) {
		c.actsFor, *name = tenant, rest
	}
}

// existing returns the name of the state for an object that the caller names as lists show it.
func (c *call) existing(name string, exists exists) string {
	before := c.actsFor
	defer func() { c.actsFor = before }()
	c.actFor(&name, exists)
	return c.owned(name)
}

func (c *call) context() context.Context { return c.r.Context() }

// variable returns the value of the variable in the path.
func (c *call) variable() (string, error) {
	raw, _ := c.route.pattern.value(c.r.URL.EscapedPath())
	id, err := url.PathUnescape(raw)
	if err != nil {
		return "", fail(badRequest, "the path has an invalid escape: %v", err)
	}
	if strings.IndexByte(id, 0) >= 0 {
		return "", fail(badRequest, "the name in the path contains the character NUL")
	}
	if len(id) > pathIDMax {
		return "", fail(badRequest, "the name in the path has %d bytes; at most %d are allowed", len(id), pathIDMax)
	}
	return id, nil
}

// pathIDMax bounds an id in a path. Ids may come from legacy documents, so the bound is higher
// than that of new jobs.
const pathIDMax = 1024

// holdOff extends the write deadline by the allowed wait of the request. The read deadline does
// no harm then: net/http lifts it when the body has been read.
func (c *call) holdOff(wait time.Duration) {
	rc := http.NewResponseController(c.ResponseWriter)
	// Not every ResponseWriter supports this; then it has no deadline either.
	_ = rc.SetWriteDeadline(time.Now().Add(wait + c.s.cfg.Timeouts.Answer))
}

var jsonType = []string{"application/json; charset=utf-8"}

// headerLSN is v1.HeaderLSN, for direct access to a header.
const headerLSN = "Osqueue-Lsn"

// lengthFrom is the size from which net/http does not determine the length of an answer by
// itself.
const lengthFrom = 2048

// send answers 200 with c.out.
func (c *call) send() error {
	c.settle()
	return c.sendSettled()
}

// sendSettled is send after settle, for answers that contain the time.
func (c *call) sendSettled() error {
	if c.status == 0 {
		if err := c.holdAnswer(); err != nil {
			return err
		}
		if len(c.out) >= lengthFrom {
			c.Header()["Content-Length"] = []string{strconv.Itoa(len(c.out))}
		}
		c.begin()
	}
	_, _ = c.ResponseWriter.Write(c.out) // the client may have disconnected; the state has changed
	return nil
}

// begin sends the head of an answer.
func (c *call) begin() {
	h := c.Header()
	h["Content-Type"] = jsonType
	c.stamp(h)
	c.WriteHeader(http.StatusOK)
}

// sendPart sends c.out, a part of an answer, and empties it.
func (c *call) sendPart() error {
	if c.status == 0 {
		if err := c.holdAnswer(); err != nil {
			return err
		}
		c.begin()
	}
	_, err := c.ResponseWriter.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return &failure{kind: clientGone, detail: "the client has gone", cause: err}
	}
	return nil
}

// grow makes room for n bytes more in c.out.
func (c *call) grow(n int) error {
	if len(c.out)+n <= cap(c.out) {
		return nil
	}
	if err := c.holdOut(len(c.out) + n); err != nil {
		return err
	}
	c.out = slices.Grow(c.out, n)
	return nil
}

// holdAnswer counts the answer against the budget until its reader has read it.
func (c *call) holdAnswer() error { return c.holdOut(usedOf(c.out)) }

// holdOut counts n bytes of c.out against the budget. If the budget is used up, it refuses the
// answer to a GET, which can be repeated, unless the answer has begun. It does not refuse
// the answer to a write, because the write has been committed.
func (c *call) holdOut(n int) error {
	more := n - c.outHeld
	switch {
	case more <= 0:
		return nil
	case c.r.Method != http.MethodGet || c.status != 0:
		c.held.Force(more)
	case c.held.Take(more) != nil:
		c.out, c.lsn = nil, fsm.LSN{}
		return fail(overBudget, "the node has too many bytes of requests and answers in memory; retry after a moment, or ask for "+
			"a smaller page")
	}
	c.outHeld = n
	return nil
}

// sendNothing answers 204.
func (c *call) sendNothing() error {
	c.settle()
	c.stamp(c.Header())
	c.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) stamp(h http.Header) {
	if !c.lsn.IsZero() {
		h[headerLSN] = c.s.lsnHeader(c.lsn)
	}
}

// lsnHeader is an LSN as the value of a header.
type lsnHeader struct {
	lsn   fsm.LSN
	value [1]string
}

// lsnHeader returns the value of the header for an LSN, which must not be changed. The answers of
// one committed entry share it.
func (s *Server) lsnHeader(lsn fsm.LSN) []string {
	last := s.lastLSN.Load()
	if last == nil || last.lsn != lsn {
		last = &lsnHeader{lsn, [1]string{lsn.String()}}
		s.lastLSN.Store(last)
	}
	return last.value[:]
}

// marshal returns the JSON of v. Names from documents of others may not be UTF-8.
func marshal(v any) ([]byte, error) {
	return json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
}

// sendJSON answers 200 with v, which must not hold opaque JSON.
func (c *call) sendJSON(v any) error {
	body, err := marshal(v)
	if err != nil {
		return err
	}
	c.out = append(c.out[:0], body...)
	return c.send()
}
