package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"osqueue/api/stream"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/inflight"
)

// framed answers the requests of one stream. Each passes through the handler of its route,
// as a request over HTTP does: the checks, limits, errors, metrics and the log are the same, and a node that does
// not lead forwards it.
type framed struct {
	s      *Server
	remote string // address of the client
}

// frameCall is a request in a frame in the form that a handler takes. It is also the
// ResponseWriter. Both are reused.
type frameCall struct {
	req    http.Request
	body   frameBody
	target url.URL
	in     http.Header // of the request
	out    http.Header // of the answer
	status int
	answer []byte
	reply  frame.Answer
}

// frameBody is the body of a request in a frame.
type frameBody struct{ bytes.Reader }

// Close implements io.Closer.
func (*frameBody) Close() error { return nil }

var frameCalls = sync.Pool{New: func() any {
	return &frameCall{in: make(http.Header), out: make(http.Header)}
}}

// Header implements http.ResponseWriter.
func (f *frameCall) Header() http.Header { return f.out }

// WriteHeader implements http.ResponseWriter.
func (f *frameCall) WriteHeader(status int) {
	if f.status == 0 {
		f.status = status
	}
}

// Write implements http.ResponseWriter.
func (f *frameCall) Write(b []byte) (int, error) {
	f.WriteHeader(http.StatusOK)
	f.answer = append(f.answer, b...)
	return len(b), nil
}

// Answer implements stream.Handler.
func (h *framed) Answer(ctx context.Context, req *frame.Request, to stream.Sender) {
	if strings.HasPrefix(req.Target, v1.PathClaim) || req.Target == v1.PathLogs { // it may wait
		cred, _ := ctx.Value(credentialKey{}).(*credential)
		var stop context.CancelFunc
		ctx, stop = h.s.whileValid(ctx, cred)
		defer stop()
	}
	f := frameCalls.Get().(*frameCall)
	handler, err := h.prepare(ctx, f, req)
	switch {
	case err != nil:
		to.Send(refusal(err))
	case !h.run(f, handler):
		to.Send(refusal(errPanic))
		return // f may be in use
	default:
		f.reply = frame.Answer{
			Status:    uint32(f.status),
			Body:      f.answer,
			LSN:       first(f.out[headerLSN]),
			Committed: first(f.out[headerCommitted]),
			Replayed:  len(f.out[headerReplayed]) > 0,
		}
		to.Send(&f.reply)
	}
	f.recycle()
}

// run calls the handler. It returns false if the handler gave up in the middle of its answer.
func (h *framed) run(f *frameCall, handler http.Handler) (ended bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			h.s.log.Error("a handler panicked", "target", f.req.URL.Path, "panic", p)
		}
	}()
	handler.ServeHTTP(f, &f.req)
	return true
}

// prepare fills f with the request and returns the handler of its route.
func (h *framed) prepare(ctx context.Context, f *frameCall, req *frame.Request) (http.Handler, error) {
	if h.s.closing.Err() != nil {
		return nil, fail(closing, "this node is shutting down; use another node")
	}
	if len(req.Target)+len(req.Key)+len(req.Prefer) > headMax {
		return nil, fail(badRequest, "the target, the key and the preference have more than %d bytes", headMax)
	}
	if h.s.exact[req.Target] != nil {
		f.target = url.URL{Path: req.Target}
	} else {
		target, err := url.ParseRequestURI(req.Target)
		if err != nil {
			return nil, fail(badRequest, "the target %q of the request is not a path: %s", shown(req.Target), shown(err.Error()))
		}
		f.target = *target
	}
	method := req.Method
	if method == "" {
		method = http.MethodPost
	}
	f.body.Reset(req.Body)
	f.req = *(&http.Request{
		Method: method, URL: &f.target, RequestURI: req.Target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: f.in, Body: &f.body, ContentLength: int64(len(req.Body)), RemoteAddr: h.remote,
	}).WithContext(ctx)
	f.in["Content-Type"] = plainJSON
	if req.Key != "" {
		f.in[headerKey] = []string{req.Key}
	}
	switch req.Prefer {
	case "":
	case v1.PreferStrict:
		f.in["Prefer"] = preferStrict
	default:
		f.in["Prefer"] = []string{req.Prefer}
	}
	return h.s.writeHandler(&f.req)
}

// headMax bounds the parts of a request in a frame that are the head of a request over HTTP, in which a follower
// forwards them.
const headMax = headerBytesMax / 2

var plainJSON = []string{"application/json"}

// writeHandler returns the handler of a write. A stream carries writes only: reads are few, and
// their answers can be large or endless.
func (s *Server) writeHandler(r *http.Request) (http.Handler, error) {
	path := r.URL.EscapedPath()
	if rt := s.exact[path]; rt != nil && rt.route.method == r.Method {
		return rt.handler, nil
	}
	for i := range s.writes {
		rt := &s.writes[i]
		if rt.route.method == r.Method && rt.route.pattern.match(r, nil) {
			return rt.handler, nil
		}
	}
	return nil, fail(noRoute, "%s %s is not a write of the HTTP API; a stream carries only writes", shown(r.Method), shown(path))
}

// writeRoute is a route that a stream can use.
type writeRoute struct {
	route   *route
	handler http.Handler
}

// indexWrites collects the routes for the streams.
func (s *Server) indexWrites(handlers []http.Handler) {
	s.exact = make(map[string]*writeRoute)
	for i := range s.routes {
		if at := s.routes[i].at; at == leaderOnly || at == inMemory && s.routes[i].method != http.MethodGet {
			s.writes = append(s.writes, writeRoute{&s.routes[i], handlers[i]})
		}
	}
	for i := range s.writes {
		if rt := &s.writes[i]; rt.route.method == http.MethodPost && !rt.route.pattern.variable {
			s.exact[rt.route.path] = rt
		}
	}
}

// Refuse implements stream.Handler.
func (h *framed) Refuse(err error) *frame.Answer {
	switch {
	case errors.Is(err, stream.ErrTooLarge):
		return refusal(bodyTooLarge(h.s.cfg.MaxBody))
	case errors.Is(err, inflight.ErrOver):
		return refusal(brokenBody(err, 0))
	case errors.Is(err, stream.ErrInFlight):
		return refusal(fail(overBudget, "this connection has too many requests in progress; retry after a moment"))
	}
	return refusal(err)
}

// refusal returns the answer to a request that no handler has seen.
func refusal(err error) *frame.Answer {
	f := failureOf(err)
	body, err := marshal(f.problem(true))
	if err != nil {
		body = []byte(`{"_tag":"` + v1.TagInternal + `"}`)
	}
	return &frame.Answer{Status: uint32(f.status), Body: body}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// recycle returns f to the pool.
func (f *frameCall) recycle() {
	clear(f.in)
	clear(f.out)
	f.req, f.status, f.reply, f.target = http.Request{}, 0, frame.Answer{}, url.URL{}
	f.body.Reset(nil)
	if f.answer = f.answer[:0]; cap(f.answer) > keptBytes {
		f.answer = nil
	}
	frameCalls.Put(f)
}
