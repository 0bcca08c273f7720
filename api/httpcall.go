package api

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// httpCall is a call over HTTP. It is also the ResponseWriter of handlers that write their answers themselves: it
// records that the answer has begun.
type httpCall struct {
	http.ResponseWriter
	core.Call
	server *Server
	r      *http.Request
}

var httpCalls = sync.Pool{New: func() any { return new(httpCall) }}

// endpoint answers the requests of one route.
type endpoint struct {
	s        *Server
	route    *core.Route
	variable string // in its path; "": none
	second   string // likewise
}

func (s *Server) handler(rt *core.Route) *endpoint {
	_, rest, _ := strings.Cut(rt.Path, "{")
	variable, rest, _ := strings.Cut(rest, "}")
	_, rest, _ = strings.Cut(rest, "{")
	return &endpoint{s: s, route: rt, variable: variable, second: strings.TrimSuffix(rest, "}")}
}

// ServeHTTP answers a request that the router has not matched with the route.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.serve(w, r, "", "") }

// serve answers a request with the variables in its path, escaped.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, object, second string) {
	h := httpCalls.Get().(*httpCall)
	h.ResponseWriter, h.server, h.r = w, e.s, r
	h.Begin(r.Context(), e.s.Core, e.route, h)
	h.Asked = askedOver(r)
	h.Object, h.Second = object, second
	sound := false
	defer func() {
		h.Held.Release()
		if sound { // a handler that panicked may have left h anywhere
			h.Reset()
			h.ResponseWriter, h.r = nil, nil
			httpCalls.Put(h)
		}
	}()
	sound = e.s.Do(&h.Call)
	h.encode()
}

// askedOver reads the head of a request.
func askedOver(r *http.Request) core.Asked {
	return core.Asked{
		Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery,
		Keys: r.Header[v1.HeaderIdempotencyKey], Prefer: r.Header["Prefer"], Remote: r.RemoteAddr, From: addressOf(r),
		ForwardedBy: r.Header[v1.HeaderForwarded], ContentType: core.First(r.Header["Content-Type"]),
		Encoding: core.First(r.Header["Content-Encoding"]), Bearer: core.First(r.Header["Authorization"]), Traceparent: core.First(r.Header[core.HeaderTraceparent]),
		RequestID: core.First(r.Header["X-Request-Id"]), Legacy: IsLegacy(r),
	}
}

var jsonType = []string{"application/json; charset=utf-8"}

// lengthFrom is the size from which net/http does not determine the length of an answer by
// itself.
const lengthFrom = 2048

// encode sends the answer.
func (h *httpCall) encode() {
	switch {
	case h.Broken:
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	case !h.Ready:
		return
	case !h.Begun:
		h.head()
	}
	if len(h.Out) > 0 {
		_, _ = h.ResponseWriter.Write(h.Out) // the client may have disconnected; the state has changed
	}
}

// head sends the head of an answer.
func (h *httpCall) head() { writeHead(h.ResponseWriter, h.Core, &h.Answered) }

// writeHead sends the head of an answer to w.
func writeHead(w http.ResponseWriter, s *core.Core, a *core.Answered) {
	header := w.Header()
	switch {
	case a.Fault != nil:
		header["Content-Type"] = problemType
		if a.Ready {
			header["Content-Length"] = []string{strconv.Itoa(len(a.Out))}
		}
		if a.Fault.Retry > 0 {
			header["Retry-After"] = []string{strconv.FormatInt(int64((a.Fault.Retry+time.Second-1)/time.Second), 10)}
		}
	case a.Status != http.StatusNoContent:
		if header["Content-Type"] = jsonType; a.Proto {
			header["Content-Type"] = protoType
		}
		if a.Ready && len(a.Out) >= lengthFrom {
			header["Content-Length"] = []string{strconv.Itoa(len(a.Out))}
		}
	}
	if !a.Lsn.IsZero() {
		header[v1.HeaderLSN] = s.LsnHeader(a.Lsn)
	}
	if a.Committed != "" {
		header[v1.HeaderCommitted] = ackValues[a.Committed]
	}
	if a.Replayed {
		header[v1.HeaderReplayed] = yes
	}
	if a.Followed {
		header["Preference-Applied"] = preferStrict
	}
	if a.Challenge {
		header["Www-Authenticate"] = []string{`Bearer realm="osqueue"`}
	}
	a.Begun = true
	w.WriteHeader(a.Status)
}

// readHead takes over the head of the answer of another node.
func readHead(a *core.Answered, resp *http.Response) {
	a.Status = resp.StatusCode
	a.Lsn, _ = fsm.ParseLSN(core.First(resp.Header[v1.HeaderLSN])) // zero if it has none
	a.Committed = core.First(resp.Header[v1.HeaderCommitted])
	a.Replayed, a.Followed = len(resp.Header[v1.HeaderReplayed]) > 0, len(resp.Header["Preference-Applied"]) > 0
	a.Challenge = len(resp.Header["Www-Authenticate"]) > 0
	switch core.First(resp.Header["Content-Type"]) {
	case v1.MediaTypeProtobuf:
		a.Proto = true
	case v1.MediaTypeProblem:
		seconds, _ := strconv.ParseUint(core.First(resp.Header["Retry-After"]), 10, 31) // 0 if it has none
		a.Fault = &core.Failure{Kind: core.Kind{Status: a.Status, Retry: time.Duration(seconds) * time.Second}}
	}
}

var (
	yes          = []string{"true"}
	problemType  = []string{v1.MediaTypeProblem}
	protoType    = []string{v1.MediaTypeProtobuf}
	ackValues    = map[string][]string{v1.AckQuorum: {v1.AckQuorum}, v1.AckObject: {v1.AckObject}}
	preferStrict = []string{v1.PreferStrict}
)

// WriteHeader records the status of an answer that its handler writes.
func (h *httpCall) WriteHeader(status int) {
	if !h.Begun && status >= http.StatusOK { // 1xx come before the answer
		h.Status, h.Begun = status, true
	}
	h.ResponseWriter.WriteHeader(status)
}

// Write records the implicit status.
func (h *httpCall) Write(b []byte) (int, error) {
	if !h.Begun {
		h.Status, h.Begun = http.StatusOK, true
	}
	return h.ResponseWriter.Write(b)
}

// Unwrap implements the interface of http.ResponseController.
func (h *httpCall) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Credential implements peer.
func (h *httpCall) Credential() *core.Credential { return h.server.credentialOf(h.r) }

// Body implements peer.
func (h *httpCall) Body() (io.ReadCloser, int64) { return h.r.Body, h.r.ContentLength }

// SendPart implements peer.
func (h *httpCall) SendPart() error {
	if !h.Begun {
		h.head()
	}
	_, err := h.ResponseWriter.Write(h.Out)
	h.Out = h.Out[:0]
	return err
}

// HoldOff implements peer. The read deadline does no harm: net/http lifts it when the body has been read.
func (h *httpCall) HoldOff(wait time.Duration) {
	// Not every ResponseWriter supports this; then it has no deadline either.
	_ = http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(wait + h.Core.Config.Timeouts.Answer))
}

// over makes a handler of one that needs the request over HTTP, which no other front end has.
func over(handle func(*httpCall) error) func(*core.Call) error {
	return func(c *core.Call) error { return handle(c.Peer.(*httpCall)) }
}
