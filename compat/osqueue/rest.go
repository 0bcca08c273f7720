package osqueue

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/internal/limit"
)

// serveREST answers a request over REST. A request to a route of the legacy broker becomes a call of the API; all others
// are for the API itself. The errors of both are translated where the contract differs.
func (h *Handler) serveREST(w http.ResponseWriter, r *http.Request) {
	a := newAnswer(w, r, h.cfg.Inflight)
	sound := false
	defer func() { a.release(sound) }()
	_, ours := isOriginal(r.Method, r.URL.EscapedPath())
	switch {
	case !ours:
		h.cfg.Native.ServeHTTP(a, r)
	case r.Method != http.MethodPost:
		h.read(a)
	case usesAPI(r.Header), !isJSON(r.Header): // a repetition must have the same bytes, and the API refuses what is not JSON
		a.native = usesAPI(r.Header)
		h.cfg.Native.ServeHTTP(a, r)
	default:
		h.write(a)
	}
	a.finish()
	sound = true
}

// read answers a read of the legacy broker.
func (h *Handler) read(a *answer) {
	target := a.target(a.r.URL.EscapedPath())
	switch {
	case target == v1.PathJobs && a.r.Method == http.MethodGet:
		target = wholeList
	case target == v1.PathJobs, target == v1.PathStats, target == v1.PathState:
		target += "?" + inOutages
	}
	h.ask(a, http.MethodGet, target, nil)
}

// inOutages is the query of a read as the legacy broker answers it: also while the bucket takes no writes. The API refuses
// reads then, because another cluster may have taken the queue over.
const inOutages = v1.ParamConsistency + "=" + v1.ConsistencyLegacy

// wholeList is the target of a list of jobs without pages: the legacy broker has none.
const wholeList = v1.PathJobs + "?" + v1.ParamLimit + "=" + v1.LimitAll + "&" + inOutages

// write answers a submission, a claim or a report.
func (h *Handler) write(a *answer) {
	body, refused := a.readBody(h.cfg.MaxBody)
	if refused != nil {
		sendFault(a.ResponseWriter, refused)
		return
	}
	path, body, err := h.translate(a, body)
	if err != nil {
		sendFault(a.ResponseWriter, faultOf(err))
		return
	}
	h.ask(a, http.MethodPost, a.target(path), body)
}

// ask makes a call for the client of a.
func (h *Handler) ask(a *answer, method, target string, body []byte) {
	if !h.cfg.Calls.Pass(a.r.Context(), method, target, a.r.RemoteAddr, body, a) {
		panic(http.ErrAbortHandler) // an answer that breaks off must not look complete
	}
}

// usesAPI reports whether the head of a request has features of the API.
func usesAPI(h http.Header) bool {
	return len(h[v1.HeaderIdempotencyKey]) > 0 || len(h["Prefer"]) > 0
}

// isJSON reports whether the body of a request is JSON in UTF-8.
func isJSON(h http.Header) bool {
	given := h.Get("Content-Type")
	if h.Get("Content-Encoding") != "" {
		return false
	}
	if given == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	return err == nil && media == "application/json" && (charset == "" || charset == "utf-8" || charset == "utf8")
}

// nativeParams are the query parameters of the API on the routes of the legacy broker.
var nativeParams = []string{
	v1.ParamAck, v1.ParamAckWaitMs, v1.ParamConsistency, v1.ParamMinLSN, v1.ParamWaitMs, v1.ParamTypes,
	v1.ParamStatus, v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron,
	v1.ParamCreatedFrom, v1.ParamCreatedBefore, v1.ParamFinishedFrom, v1.ParamFinishedBefore, v1.ParamSearch, v1.ParamSort,
	v1.ParamAt, v1.ParamLimit, v1.ParamCursor,
}

// target returns the target of the call to a path. It has the query of the request, unless the API knows none of its
// parameters: the legacy broker ignores the query, so its clients may send anything.
func (a *answer) target(path string) string {
	query := a.r.URL.RawQuery
	if query == "" {
		return path
	}
	given, _ := url.ParseQuery(query) // the readable part is enough
	for _, name := range nativeParams {
		if given.Has(name) {
			return path + "?" + query
		}
	}
	return path
}

// readBody reads the body of the request.
func (a *answer) readBody(most int64) ([]byte, *compat.Refusal) {
	tooLarge := &compat.Refusal{Status: http.StatusRequestEntityTooLarge, Tag: v1.TagTooLarge, Detail: "the body is larger than " + strconv.FormatInt(most, 10) + " bytes"}
	if a.r.ContentLength > most { // the announced bytes may never arrive
		return nil, tooLarge
	}
	body, err := a.held.ReadAll(io.LimitReader(a.r.Body, most+1))
	slow := net.Error(nil)
	switch {
	case errors.Is(err, limit.ErrOver):
		return nil, &compat.Refusal{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Detail: err.Error()}
	case errors.As(err, &slow) && slow.Timeout():
		return nil, &compat.Refusal{Status: http.StatusRequestTimeout, Tag: v1.TagTimeout, Detail: "the body did not arrive in time; repeat the request"}
	case err != nil:
		return nil, &compat.Refusal{Status: http.StatusBadRequest, Tag: v1.TagBadRequest, Detail: "the connection broke before the end of the body"}
	case int64(len(body)) > most:
		return nil, tooLarge
	}
	return body, nil
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

func newAnswer(w http.ResponseWriter, r *http.Request, budget *limit.Budget) *answer {
	a := answers.Get().(*answer)
	a.ResponseWriter, a.r, a.held = w, r, budget.Hold()
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
	switch {
	case a.passed || a.status != 0:
		return
	case status >= http.StatusBadRequest && a.Header().Get("Content-Type") == v1.MediaTypeProblem:
		a.status = status
		return
	}
	a.passed = status >= http.StatusOK
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status != 0 {
		return a.body.Write(b)
	}
	a.WriteHeader(http.StatusOK)
	if a.r.Method == http.MethodHead {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// finish writes the error that was held back.
func (a *answer) finish() {
	if a.status == 0 {
		return
	}
	known, original := isOriginal(a.r.Method, a.r.URL.EscapedPath())
	if a.lacksRoute(known, original) {
		a.Header().Del("Allow")
		sendJSON(a.ResponseWriter, http.StatusNotFound, routeNotFound(a.r))
		return
	}
	if original { // the legacy broker's clients call its routes only
		if body, status := translated(a.body.Bytes(), a.status, a.native); body != nil {
			sendJSON(a.ResponseWriter, status, body)
			return
		}
	}
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(a.body.Bytes()) // the client may have gone
}

// sendJSON answers with the content type of the contract.
func sendJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(len(body))) // in place of the length of the API's answer
	h.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// lacksRoute reports whether the legacy broker has no such route. It answers 404 and never
// 405, also for methods that only the API has on its paths. The API's router matches the escaped path, since an id may
// contain a slash.
func (a *answer) lacksRoute(known, allowed bool) bool {
	switch {
	case a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed:
		return false
	case known:
		return !allowed
	case a.status == http.StatusMethodNotAllowed:
		return strings.HasPrefix(a.r.URL.EscapedPath(), v1.PathJobs+"/")
	}
	return tagOf(a.body.Bytes()) == v1.TagNoRoute
}

func tagOf(problem []byte) string {
	var p v1.Problem
	if err := json.Unmarshal(problem, &p, compat.Lenient); err != nil {
		return ""
	}
	return p.Tag
}

// translated gives a problem the _tag of the contract, and its status unless the caller
// knows the API (native). It returns nil if the contract has no word for the problem.
func translated(problem []byte, given int, native bool) (body []byte, status int) {
	var p v1.Problem
	if err := json.Unmarshal(problem, &p, compat.Lenient); err != nil {
		return nil, given
	}
	if p.Tag, status = inREST(p.Tag, given); p.Tag == "" {
		return nil, given
	}
	p.Status = status
	if native {
		p.Status = given
	}
	body, err := json.Marshal(&p, compat.Lenient)
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
	}{"Route " + r.Method + ":" + target + " not found", "Not Found", http.StatusNotFound}, compat.Lenient)
	return body
}

// sendFault answers with an error of the contract.
func sendFault(w http.ResponseWriter, f *compat.Refusal) {
	tag, status := inREST(f.Tag, f.Status)
	body, _ := json.Marshal(tagged{tag, f.Detail}, compat.Lenient) // text always encodes
	sendJSON(w, status, body)
}

// A tagged is an error as legacy clients read it.
type tagged struct {
	Tag     string `json:"_tag"`
	Message string `json:"message"`
}
