package osqueue

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/limit"
)

// serveREST passes the request to the HTTP API and translates the answer where the
// contract differs.
func (h *Handler) serveREST(w http.ResponseWriter, r *http.Request) {
	r = withoutForeignQuery(r)
	api := h.rest
	_, allowed := isOriginal(r.Method, r.URL.EscapedPath())
	a := newAnswer(w, h.cfg.Inflight)
	sound := false
	defer func() { a.release(sound) }()
	switch {
	case r.Method == http.MethodPost && allowed:
		var read bool
		var err error
		read, a.native, err = h.reread(r, &a.held)
		if err != nil {
			sendFault(w, faultOf(err))
			return
		}
		if read {
			api = h.cfg.Calls // the body may have become longer
		}
	case r.Method == http.MethodGet && r.URL.Path == v1.PathJobs && r.URL.RawQuery == "":
		h.listREST(w, r)
		return
	}
	a.r = r
	api.ServeHTTP(a, r)
	a.finish()
	sound = true
}

// nativeParams are the query parameters of the API on the routes of the legacy broker.
var nativeParams = []string{
	v1.ParamAck, v1.ParamAckWaitMs, v1.ParamConsistency, v1.ParamMinLSN, v1.ParamWaitMs, v1.ParamTypes,
	v1.ParamStatus, v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron,
	v1.ParamCreatedFrom, v1.ParamCreatedBefore, v1.ParamFinishedFrom, v1.ParamFinishedBefore, v1.ParamSearch, v1.ParamSort,
	v1.ParamAt, v1.ParamLimit, v1.ParamCursor,
}

// withoutForeignQuery removes the query of a request if the API knows none of its
// parameters: the legacy broker ignores the query, so its clients may send anything.
func withoutForeignQuery(r *http.Request) *http.Request {
	if r.URL.RawQuery == "" {
		return r
	}
	if _, allowed := isOriginal(r.Method, r.URL.Path); !allowed {
		return r
	}
	given, _ := url.ParseQuery(r.URL.RawQuery) // the readable part is enough
	for _, name := range nativeParams {
		if given.Has(name) {
			return r
		}
	}
	plain, target := *r, *r.URL
	target.RawQuery = ""
	plain.URL = &target
	return &plain
}

// wantsProblems reports whether the client accepts the API's own errors, and so knows
// the API.
func wantsProblems(r *http.Request) bool {
	for _, accepted := range r.Header["Accept"] {
		if strings.Contains(accepted, v1.MediaTypeProblem) {
			return true
		}
	}
	return false
}

// isOriginal reports whether the legacy broker has a route with the path, and whether
// the route allows the method.
func isOriginal(method, path string) (known, allowed bool) {
	const get, post = http.MethodGet, http.MethodPost
	var has string
	switch path {
	case v1.PathJobs:
		return true, method == post || method == get || method == http.MethodHead
	case v1.PathClaim:
		has = post
	case v1.PathStats, v1.PathState, v1.PathHealthz, v1.PathThrottle:
		has = get
	default:
		id, ok := strings.CutPrefix(path, v1.PathJobs+"/")
		id, action, hasAction := strings.Cut(id, "/")
		if !ok || id == "" || !hasAction || action != v1.ActionComplete && action != v1.ActionHeartbeat {
			return false, false
		}
		has = post
	}
	return true, method == has || has == get && method == http.MethodHead
}

// An answer is the http.ResponseWriter of one request. It holds an error of the API back
// and translates it.
type answer struct {
	http.ResponseWriter
	r      *http.Request
	status int // of the error that is held back; 0 for none
	passed bool
	native bool // the caller knows the API and gets its statuses
	body   bytes.Buffer
	held   limit.Hold // the bytes of the request
}

var answers = sync.Pool{New: func() any { return new(answer) }}

func newAnswer(w http.ResponseWriter, budget *limit.Budget) *answer {
	a := answers.Get().(*answer)
	a.ResponseWriter, a.held = w, budget.Hold()
	return a
}

// release ends the hold. If reuse is true, another request may get a: nothing may refer to it then.
func (a *answer) release(reuse bool) {
	a.held.Release()
	if reuse {
		*a = answer{}
		answers.Put(a)
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.passed && a.status == 0 && status >= http.StatusBadRequest && a.Header().Get("Content-Type") == v1.MediaTypeProblem {
		a.status = status
		return
	}
	if status >= http.StatusOK {
		a.passed = true
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status != 0 {
		return a.body.Write(b)
	}
	a.passed = true
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// finish writes the error that was held back.
func (a *answer) finish() {
	if a.status == 0 {
		return
	}
	if a.noRoute() {
		a.Header().Del("Allow")
		a.send(http.StatusNotFound, routeNotFound(a.r))
		return
	}
	// The legacy broker's clients call its routes only.
	if _, original := isOriginal(a.r.Method, a.r.URL.EscapedPath()); original {
		if body, status := translated(a.body.Bytes(), a.status, a.native); body != nil {
			a.send(status, body)
			return
		}
	}
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(a.body.Bytes()) // the client may have gone
}

func (a *answer) send(status int, body []byte) {
	sendJSON(a.ResponseWriter, status, body)
}

// sendJSON answers with the content type of the contract.
func sendJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(len(body))) // in place of the length of the API's answer
	h.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// noRoute reports whether the legacy broker has no such route. It answers 404 and never
// 405, also for methods that only the API has on its paths.
func (a *answer) noRoute() bool {
	if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
		return false
	}
	// The API's router matches the escaped path, since an id may contain a slash.
	path := a.r.URL.EscapedPath()
	known, allowed := isOriginal(a.r.Method, path)
	if known {
		return !allowed
	}
	if a.status == http.StatusMethodNotAllowed {
		return strings.HasPrefix(path, v1.PathJobs+"/")
	}
	return tagOf(a.body.Bytes()) == v1.TagNoRoute
}

func tagOf(problem []byte) string {
	var p v1.Problem
	if err := json.Unmarshal(problem, &p, lenient); err != nil {
		return ""
	}
	return p.Tag
}

// translated gives a problem the _tag of the contract, and its status unless the caller
// knows the API (native). It returns nil if the contract has no word for the problem.
func translated(problem []byte, given int, native bool) (body []byte, status int) {
	var p v1.Problem
	if err := json.Unmarshal(problem, &p, lenient); err != nil {
		return nil, given
	}
	if p.Tag, status = inREST(p.Tag, given); p.Tag == "" {
		return nil, given
	}
	p.Status = status
	if native {
		p.Status = given
	}
	body, err := json.Marshal(&p, lenient)
	if err != nil {
		return nil, given
	}
	return body, p.Status
}

// targetMax is the largest number of bytes of an unknown path in an answer.
const targetMax = 1024

// routeNotFound returns the body of the 404 for a route that does not exist.
func routeNotFound(r *http.Request) []byte {
	target := r.URL.RequestURI()
	target = strings.ToValidUTF8(target[:min(len(target), targetMax)], "")
	body, _ := json.Marshal(struct { // text and a number always encode
		Message    string `json:"message"`
		Error      string `json:"error"`
		StatusCode int    `json:"statusCode"`
	}{"Route " + r.Method + ":" + target + " not found", "Not Found", http.StatusNotFound}, lenient)
	return body
}

// sendFault answers 503 with an error of the contract.
func sendFault(w http.ResponseWriter, f *fault) {
	body, _ := json.Marshal(tagged{f.meaning().tag, f.message}, lenient) // text always encodes
	sendJSON(w, http.StatusServiceUnavailable, body)
}

// A tagged is an error as legacy clients read it.
type tagged struct {
	Tag     string `json:"_tag"`
	Message string `json:"message"`
}

// ofListed are the fields that a listed job has and a submission does not. A client that
// submits a listed job wants a new job: the id in the body is the old job's.
var ofListed = []string{"status", "attempts", "createdAt", "heartbeat"}

// withID adds an id at the end of the body of a submission, so that the positions in
// errors stay right. It returns an invalid body unchanged.
func withID(body []byte, id string) []byte {
	found := scanSubmission(body)
	if found.end < 0 {
		return body
	}
	quoted := `"` + id + `"`
	switch {
	case found.given && !found.listed:
		return body
	case found.idEnd > 0:
		return slices.Concat(body[:found.idStart], []byte(quoted), body[found.idEnd:])
	}
	member := `"id":` + quoted
	if found.members > 0 {
		member = "," + member
	}
	return slices.Concat(body[:found.end], []byte(member), body[found.end:])
}

// A submitted is the result of scanning the body of a submission.
type submitted struct {
	end            int // offset of the object's end; -1 if the body is not an object
	members        int
	idStart, idEnd int  // the value of the field id; idEnd is 0 if it is missing
	given          bool // the id is a text that is not empty
	listed         bool // the body has fields of a listed job
}

// scanSubmission scans the fields of the object.
func scanSubmission(body []byte) submitted {
	dec := jsontext.NewDecoder(bytes.NewReader(body), lenient)
	none := submitted{end: -1}
	var found submitted
	if token, err := dec.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return none
	}
	for dec.PeekKind() == jsontext.KindString {
		token, err := dec.ReadToken()
		if err != nil {
			return none
		}
		name := token.String()
		found.members++
		if name != "id" {
			found.listed = found.listed || slices.Contains(ofListed, name)
			if dec.SkipValue() != nil {
				return none
			}
			continue
		}
		value, err := dec.ReadValue()
		if err != nil || found.idEnd > 0 { // the API refuses a second field id
			return none
		}
		found.idEnd = int(dec.InputOffset())
		found.idStart = found.idEnd - len(value)
		found.given = value.Kind() == jsontext.KindString && len(value) > len(`""`)
	}
	if token, err := dec.ReadToken(); err != nil || token.Kind() != jsontext.KindEndObject {
		return none
	}
	found.end = int(dec.InputOffset()) - 1
	if _, err := dec.ReadToken(); err != io.EOF { //nolint:errorlint // the decoder returns it as it is
		return none
	}
	return found
}
