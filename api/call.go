package api

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/inflight"
)

// call is one call of an operation: what is asked and by whom, and the answer. It knows no transport: a front end
// fills it, gives it to Server.do, and encodes the answer. Calls are reused.
type call struct {
	s     *Core
	route *route
	ctx   context.Context
	peer  peer
	asked
	answered

	began  time.Time
	trace  string // id of the trace of the job that the call is about, for the debug log; "": none
	strict bool
	params url.Values // of the query, once parsed
	past   state      // that the call reads; nil: what the node has applied
	in     []byte     // the body of the request
	shared bool       // others refer to the memory of in, and may after the call
	newJob v1.NewJob  // of an enqueue
	held   inflight.Hold

	outHeld int // bytes of out in held

	principal *auth.Principal // nil: none, or the server does not ask
	actsFor   string          // tenant whose object a caller without limits names
	admitted  bool            // the audit log takes the entry of the change

	isRead bool   // in is the whole body
	key    string // of the write; "": none
	ack    ack    // that the write asks for
}

// asked is what a front end has read of a request, besides its body.
type asked struct {
	method      string
	path        string   // as it was sent, escaped
	rawQuery    string   // as it was sent
	object      string   // the value of the variable in the path, escaped
	keys        []string // the idempotency keys that were given: one at most is right
	prefer      []string // the preferences (RFC 7240)
	remote      string   // address of the client, or of the node that has forwarded the call
	from        string   // address of the client
	forwardedBy []string // the node that has forwarded the call; nil: none
	traceparent string
	requestID   string // given by the client, for the debug log
	legacy      bool   // it came over the listener for legacy clients
	inner       bool   // it comes from this process
}

// answered is the answer. A front end encodes it when it is ready; begun says that it has already sent a part.
type answered struct {
	status    int     // 0: none yet
	lsn       fsm.LSN // zero: none
	committed string  // the durability that a write has reached; "": none
	replayed  bool    // the answer repeats the first
	followed  bool    // the preference for strict handling was followed
	challenge bool    // the caller has to authenticate
	fault     *failure
	out       []byte // the body, or the part of it that is not sent yet
	ready     bool
	begun     bool
	broken    bool // a refusal after a part: the answer must not look like a whole one
}

// peer is the front end's side of a call in progress.
type peer interface {
	// credential returns what the caller has shown.
	credential() *credential
	// checkMedia refuses a body that is not JSON.
	checkMedia() error
	// body returns the body and its length; -1: not known yet.
	body() (io.ReadCloser, int64)
	// sendPart sends answered.out as a part of a long answer, and empties it.
	sendPart() error
	// holdOff extends the time for the answer by the wait that the call asks for.
	holdOff(wait time.Duration)
	// exchange returns the call as a request over HTTP and the writer of its answer, to forward it to the leader.
	exchange() (http.ResponseWriter, *http.Request)
}

// keptBytes is the largest buffer that a call keeps for the next request.
const keptBytes = 64 << 10

// begin prepares a call that is new or was reset.
func (c *call) begin(ctx context.Context, s *Core, rt *route, p peer) {
	c.s, c.route, c.peer, c.ctx = s, rt, p, ctx
	c.held = s.cfg.Inflight.Hold()
}

// reset makes c ready for another request. After that its buffers must not be used.
func (c *call) reset() {
	in, out := c.in[:0], c.out[:0]
	if cap(in) > keptBytes || c.shared {
		in = nil
	}
	if cap(out) > keptBytes {
		out = nil
	}
	*c = call{in: in}
	c.out = out
}

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

func (c *call) context() context.Context { return c.ctx }

// variable returns the value of the variable in the path.
func (c *call) variable() (string, error) {
	id, err := url.PathUnescape(c.object)
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

// holdOff extends the time for the answer by the wait that the call asks for.
func (c *call) holdOff(wait time.Duration) { c.peer.holdOff(wait) }

// send answers 200 with c.out.
func (c *call) send() error {
	c.settle()
	return c.sendSettled()
}

// sendSettled is send after settle, for answers that contain the time.
func (c *call) sendSettled() error {
	if !c.begun {
		if err := c.holdAnswer(); err != nil {
			return err
		}
		c.status = http.StatusOK
	}
	c.ready = true
	return nil
}

// sendPart sends c.out, a part of an answer, and empties it.
func (c *call) sendPart() error {
	if !c.begun {
		if err := c.holdAnswer(); err != nil {
			return err
		}
		c.status = http.StatusOK
	}
	if err := c.peer.sendPart(); err != nil {
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
	case c.method != http.MethodGet || c.begun:
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
	c.status, c.ready = http.StatusNoContent, true
	return nil
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
