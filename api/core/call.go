package core

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
	"osqueue/fsm/tenants"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
)

// Call is one call of an operation: what is asked and by whom, and the answer. It knows no transport: a front end
// fills it, gives it to Core.Do, and encodes the answer. Calls are reused.
type Call struct {
	Core  *Core
	Route *Route
	Ctx   context.Context
	Peer  peer
	Asked
	Answered

	began  time.Time
	trace  string // id of the trace of the job that the call is about, for the debug log; "": none
	Strict bool
	Name   string     // the variable in the path
	Part   string     // a second variable
	Params url.Values // of the query; nil if the route ignores them
	Past   state      // that the call reads; nil: what the node has applied
	In     []byte     // the body of the request
	NewJob v1.NewJob  // of an enqueue
	Batch  v1.Batch   // of an enqueue of several jobs
	Held   limit.Hold

	outHeld int // bytes of out in held
	decoded int // bytes of decoded jobs in held

	Principal *auth.Principal // nil: none, or the server does not ask
	actsFor   string          // tenant whose object a caller without limits names
	admitted  bool            // the audit log takes the entry of the change

	isRead bool   // in is the whole body
	same   []byte // a v1.Message in the body, in the form that a repetition has; nil: in is that form
	Key    string // of the write; "": none
	Ack    ack    // that the write asks for
}

// Asked is what a front end has read of a request, besides its body.
type Asked struct {
	Method      string
	Path        string   // as it was sent, escaped
	RawQuery    string   // as it was sent
	Object      string   // the value of the variable in the path, escaped
	Second      string   // that of a second one; "": the path has none
	Keys        []string // the idempotency keys that were given: one at most is right
	Prefer      []string // the preferences (RFC 7240)
	Remote      string   // address of the client, or of the node that has forwarded the call
	From        string   // address of the client
	ForwardedBy []string // the node that has forwarded the call; nil: none
	ContentType string   // of the body
	Encoding    string   // of the body
	Bearer      string   // the Authorization header
	Traceparent string
	RequestID   string // given by the client, for the debug log
	Legacy      bool   // it came over the listener for legacy clients
	Inner       bool   // it comes from this process
}

// Answered is the answer. A front end encodes it when it is ready; begun says that it has already sent a part.
type Answered struct {
	Status    int     // 0: none yet
	Lsn       fsm.LSN // zero: none
	Committed string  // the durability that a write has reached; "": none
	Replayed  bool    // the answer repeats the first
	Followed  bool    // the preference for strict handling was followed
	Proto     bool    // out is protobuf
	Challenge bool    // the caller has to authenticate
	Fault     *Failure
	Out       []byte // the body, or the part of it that is not sent yet
	Ready     bool
	Begun     bool
	Broken    bool // a refusal after a part: the answer must not look like a whole one
}

// peer is the front end's side of a call in progress.
type peer interface {
	// Credential returns what the caller has shown.
	Credential() *Credential
	// Body returns the body and its length; -1: not known yet.
	Body() (io.ReadCloser, int64)
	// SendPart sends answered.out as a part of a long answer, and empties it.
	SendPart() error
	// HoldOff extends the time for the answer by the wait that the call asks for.
	HoldOff(wait time.Duration)
}

// keptBytes is the largest buffer that a call keeps for the next request.
const keptBytes = 64 << 10

// keptJobs is the largest number of decoded jobs whose memory a call keeps.
const keptJobs = 128

// Begin prepares a call that is new or was reset.
func (c *Call) Begin(ctx context.Context, s *Core, rt *Route, p peer) {
	c.Core, c.Route, c.Peer, c.Ctx = s, rt, p, ctx
	c.Held = s.Config.Inflight.Hold()
}

// Reset makes c ready for another request. After that its buffers must not be used.
func (c *Call) Reset() {
	in, out := c.In[:0], c.Out[:0]
	if cap(in) > keptBytes {
		in = nil
	}
	if cap(out) > keptBytes {
		out = nil
	}
	jobs := c.Batch.Jobs[:0]
	if clear(jobs[:cap(jobs)]); cap(jobs) > keptJobs {
		jobs = nil
	}
	*c = Call{In: in, Batch: v1.Batch{Jobs: jobs}}
	c.Out = out
}

// Viewer returns the tenant of the caller.
func (c *Call) Viewer() string {
	if c.Principal == nil {
		return ""
	}
	return c.Principal.Tenant
}

// tenant returns the tenant to whom the objects belong that the caller names.
func (c *Call) tenant() string { return cmp.Or(c.Viewer(), c.actsFor) }

// Owned returns the name of the state for an object that the caller names, and named the one for the
// caller of an object of the state.
func (c *Call) Owned(name string) string  { return tenants.Owned(c.tenant(), name) }
func (c *Call) Named(owned string) string { return tenants.NameFor(c.Viewer(), owned) }

// OwnedName returns the name in the path, of an object that has an owner.
func (c *Call) OwnedName(exists exists) string {
	name := c.Name
	c.ActFor(&name, exists)
	return name
}

// exists reports whether a state has the object of a name of the state.
type exists func(v *fsm.View, owned string) bool

func CronExists(v *fsm.View, owned string) bool   { return v.Cron(owned) != nil }
func BatchExists(v *fsm.View, owned string) bool  { return v.Batch(owned) != nil }
func WorkerExists(v *fsm.View, owned string) bool { return v.Worker(owned) != nil || v.Held(owned) > 0 }

// ActFor lets a caller without limits name the object of a tenant, as lists show it: with the tenant
// before the name. If that object exists, and none of the caller's own has the name, then the call acts
// for the tenant, and name becomes the name without the tenant.
func (c *Call) ActFor(name *string, exists exists) {
	tenant, rest, ok := tenants.Cut(*name)
	if !ok || c.tenant() != "" {
		return
	}
	if v := c.State().View(); !exists(v, *name) && exists(v, tenants.Owned(tenant, rest)) {
		c.actsFor, *name = tenant, rest
	}
}

// Existing returns the name of the state for an object that the caller names as lists show it.
func (c *Call) Existing(name string, exists exists) string {
	before := c.actsFor
	defer func() { c.actsFor = before }()
	c.ActFor(&name, exists)
	return c.Owned(name)
}

func (c *Call) Context() context.Context { return c.Ctx }

// View freezes the state that the call reads. The answer has its LSN.
func (c *Call) View() *fsm.View {
	v := c.State().View()
	c.Lsn = v.LSN()
	return v
}

// With returns the handler of an operation with a T as the body.
func With[T any](handle func(*Call, *T) error) func(*Call) error {
	return func(c *Call) error {
		in := new(T)
		if err := c.Decode(in); err != nil {
			return err
		}
		return handle(c, in)
	}
}

// readName reads the variable in the path.
func (c *Call) readName() error {
	name, err := url.PathUnescape(c.Object)
	part, err2 := url.PathUnescape(c.Second)
	switch err = cmp.Or(err, err2); {
	case err != nil:
		return Fail(BadRequest, "the path has an invalid escape: %v", err)
	case strings.IndexByte(name, 0) >= 0, strings.IndexByte(part, 0) >= 0:
		return Fail(BadRequest, "the name in the path contains the character NUL")
	case len(name) > PathIDMax:
		return Fail(BadRequest, "the name in the path has %d bytes; at most %d are allowed", len(name), PathIDMax)
	}
	c.Name, c.Part = name, part
	return nil
}

// PathIDMax bounds an id in a path. Ids may come from legacy documents, so the bound is higher
// than that of new jobs.
const PathIDMax = 1024

// HoldOff extends the time for the answer by the wait that the call asks for.
func (c *Call) HoldOff(wait time.Duration) { c.Peer.HoldOff(wait) }

// begin prepares the head of an answer with c.out.
func (c *Call) begin() error {
	if c.Begun {
		return nil
	}
	if err := c.HoldAnswer(); err != nil {
		return err
	}
	c.Status = http.StatusOK
	return nil
}

// sendPart sends c.out, a part of an answer, and empties it.
func (c *Call) sendPart() error {
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.Peer.SendPart(); err != nil {
		return &Failure{Kind: clientGone, Detail: "the client has gone", Cause: err}
	}
	return nil
}

// Grow makes room for n bytes more in c.out.
func (c *Call) Grow(n int) error {
	if len(c.Out)+n <= cap(c.Out) {
		return nil
	}
	if err := c.HoldOut(len(c.Out) + n); err != nil {
		return err
	}
	c.Out = slices.Grow(c.Out, n)
	return nil
}

// HoldAnswer counts the answer against the budget until its reader has read it.
func (c *Call) HoldAnswer() error { return c.HoldOut(usedOf(c.Out)) }

// HoldOut counts n bytes of c.out against the budget. If the budget is used up, it refuses the
// answer to a GET or HEAD, which can be repeated, unless the answer has begun. It does not refuse
// the answer to a write, because the write has been committed.
func (c *Call) HoldOut(n int) error {
	more := n - c.outHeld
	switch {
	case more <= 0:
		return nil
	case c.Route.Method != http.MethodGet || c.Begun: // a route of GET takes HEAD too
		c.Held.Force(more)
	case c.Held.Take(more) != nil:
		c.Out, c.Lsn = nil, fsm.LSN{}
		return Fail(OverBudget, "the node has too many bytes of requests and answers in memory; retry after a moment, or ask for "+
			"a smaller page")
	}
	c.outHeld = n
	return nil
}

// SendNothing answers 204.
func (c *Call) SendNothing() error {
	c.Settle()
	c.Status, c.Ready = http.StatusNoContent, true
	return nil
}

// SendDone answers 200 with a v1.Done.
func (c *Call) SendDone() error {
	c.Out = append(LsnText(append(c.Out[:0], '{'), c.Lsn), '}')
	return c.Send()
}

// Marshal returns the JSON of v. Names from documents of others may not be UTF-8.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
}

// Answer answers 200 with v, in the encoding of the request. Names from documents of others may not be UTF-8: they get
// U+FFFD.
func (c *Call) Answer(v v1.Message) error {
	c.Settle()
	return c.AnswerSettled(v)
}

// AnswerSettled is Answer after Settle, for answers that contain the time.
func (c *Call) AnswerSettled(v v1.Message) error {
	if c.Proto = c.inProto(); c.Proto {
		c.Out, _ = v.AppendProto(c.Out[:0])
	} else {
		c.Out, _ = v.AppendJSON(c.Out[:0])
	}
	return c.SendSettled()
}

// LsnText returns the LSN of the answer; "" is none.
func (c *Call) LsnText() string {
	if c.Lsn.IsZero() {
		return ""
	}
	return c.Core.LsnHeader(c.Lsn)[0]
}

// SendJSON answers 200 with v, which must not hold opaque JSON.
func (c *Call) SendJSON(v any) error {
	body, err := Marshal(v)
	if err != nil {
		return err
	}
	c.Out = append(c.Out[:0], body...)
	return c.Send()
}

// state is read by requests. It is the state that the node has applied, or an earlier one.
type state interface {
	Job(id string) *fsm.Job
	View() *fsm.View
	TypeStats(name string) fsm.TypeStats
	AllTypeStats() map[string]fsm.TypeStats
	LimitUse(name string) fsm.LimitUse
	LimitUses(from string, n int) []fsm.LimitUse
}

// State returns the state that the call reads.
func (c *Call) State() state {
	if c.Past != nil {
		return c.Past
	}
	return c.Core.Node
}

// Route is one method on one path.
type Route struct {
	Method string // GET answers HEAD too
	Path   string // with two variables at most, as in /v1/jobs/{id}/signals/{name}
	At     routing
	Busy   bool // the router tries it first
	Waits  bool // the body may ask to wait
	// AwaitsEnd: waitMs is how long to wait for the end of a job, not how long
	// to wait for a state that is fresh enough.
	AwaitsEnd bool
	// Lenient: legacy clients call it, whose unknown fields are ignored unless they ask for
	// strict handling. Elsewhere unknown fields are refused.
	Lenient bool
	Legacy  legacyUse
	Past    bool     // v1.ParamAt selects an earlier state
	Params  []string // of the query, in addition to those of every read or write
	Handle  func(*Call) error
	Right   auth.Right // one of them is enough
}

// routing is the place where a request can be handled.
type routing uint8

const (
	AnyNode    routing = iota
	LeaderOnly         // writes
	UpToDate           // reads, as fresh as the request wants them
	InMemory           // about what only the leader has, in memory: commits nothing
)

// Writes reports whether a stream carries calls of the route: reads are few, and their answers can be large or endless.
func (rt *Route) Writes() bool {
	return rt.At == LeaderOnly || rt.At == InMemory && rt.Method != http.MethodGet
}

// legacyUse is what legacy clients may do with a route.
type legacyUse uint8

const (
	_        legacyUse = iota // nothing
	ByCompat                  // packages of compat call it for them
	ByLegacy                  // they may use it themselves
)
