package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"osqueue/api/stream"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/inflight"
)

// framed answers the requests of one stream.
type framed struct {
	s      *Server
	remote string // address of the client
}

// framedCall is a call in a frame.
type framedCall struct {
	call
	reqBody bytes.Reader
	method  string
	sent    *forwardedAnswer // of a leader; nil: this node answers
	keys    [1]string
	prefer  [1]string
	reply   frame.Answer
}

var framedCalls = sync.Pool{New: func() any { return new(framedCall) }}

// Answer implements stream.Handler.
func (h *framed) Answer(ctx context.Context, req *frame.Request, to stream.Sender) {
	if strings.HasPrefix(req.Target, v1.PathClaim) || req.Target == v1.PathLogs { // it may wait
		cred, _ := ctx.Value(credentialKey{}).(*credential)
		var stop context.CancelFunc
		ctx, stop = h.s.whileValid(ctx, cred)
		defer stop()
	}
	f := framedCalls.Get().(*framedCall)
	if err := f.read(h, ctx, req); err != nil {
		to.Send(refusal(err))
		framedCalls.Put(f)
		return
	}
	defer f.held.Release()
	sound, whole := h.do(f)
	if !whole {
		to.Send(refusal(fail(brokeOff, "the connection to the leader broke while it answered")))
		return
	}
	to.Send(f.encode())
	if sound { // a handler that panicked may use f
		f.recycle()
	}
}

// do answers a call. whole is false if the answer of the leader broke off.
func (h *framed) do(f *framedCall) (sound, whole bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			panic(p)
		}
	}()
	sound = h.s.do(&f.call)
	return sound, true
}

// read makes the call of a request.
func (f *framedCall) read(h *framed, ctx context.Context, req *frame.Request) error {
	if h.s.closing.Err() != nil {
		return fail(closing, "this node is shutting down; use another node")
	}
	if len(req.Target)+len(req.Key)+len(req.Prefer) > headMax {
		return fail(badRequest, "the target, the key and the preference have more than %d bytes", headMax)
	}
	path, query, _ := strings.Cut(req.Target, "?")
	if !strings.HasPrefix(path, "/") {
		return fail(badRequest, "the target %q of the request is not a path", shown(req.Target))
	}
	if method := req.Method; method == "" {
		f.method = http.MethodPost
	} else {
		f.method = method
	}
	rt, object := h.s.routeOf(f.method, path)
	if rt == nil || !rt.writes() {
		return fail(noRoute, "%s %s is not a write of the HTTP API; a stream carries only writes", shown(f.method), shown(path))
	}
	f.call.begin(ctx, h.s.Core, rt, f)
	f.asked = asked{method: f.method, path: path, rawQuery: query, object: object, remote: h.remote, from: h.remote}
	if req.Key != "" {
		f.keys[0] = req.Key
		f.asked.keys = f.keys[:]
	}
	if req.Prefer != "" {
		f.prefer[0] = req.Prefer
		f.asked.prefer = f.prefer[:]
	}
	f.reqBody.Reset(req.Body)
	return nil
}

// writes reports whether a stream carries calls of the route: reads are few, and their answers can be large or endless.
func (rt *route) writes() bool {
	return rt.at == leaderOnly || rt.at == inMemory && rt.method != http.MethodGet
}

// headMax bounds the parts of a request in a frame that are the head of a request over HTTP, in which a follower
// forwards them.
const headMax = headerBytesMax / 2

// encode returns the answer.
func (f *framedCall) encode() *frame.Answer {
	f.reply = frame.Answer{Status: uint32(f.status), Body: f.out, Committed: f.committed, Replayed: f.replayed}
	switch {
	case f.sent != nil && f.begun:
		f.reply = f.sent.reply()
	case !f.lsn.IsZero():
		f.reply.LSN = f.s.lsnHeader(f.lsn)[0]
	}
	return &f.reply
}

// recycle returns f to the pool.
func (f *framedCall) recycle() {
	f.reset()
	f.reqBody.Reset(nil)
	f.reply, f.sent = frame.Answer{}, nil
	framedCalls.Put(f)
}

// credential implements peer: a stream has that of its upgrade.
func (f *framedCall) credential() *credential {
	if cred, ok := f.ctx.Value(credentialKey{}).(*credential); ok {
		return cred
	}
	return &credential{}
}

// checkMedia implements peer.
func (f *framedCall) checkMedia() error { return nil }

// body implements peer.
func (f *framedCall) body() (io.ReadCloser, int64) {
	return io.NopCloser(&f.reqBody), int64(f.reqBody.Len())
}

// sendPart implements peer. Writes have short answers.
func (f *framedCall) sendPart() error { return errors.ErrUnsupported }

// holdOff implements peer. The connection bounds each write.
func (f *framedCall) holdOff(time.Duration) {}

// exchange implements peer.
func (f *framedCall) exchange() (http.ResponseWriter, *http.Request) {
	a := &f.asked
	r := (&http.Request{
		Method: a.method, URL: &url.URL{Path: f.pathText(), RawPath: a.path, RawQuery: a.rawQuery}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, RemoteAddr: a.remote,
	}).WithContext(f.ctx)
	if a.keys != nil {
		r.Header[headerKey] = a.keys
	}
	if a.prefer != nil {
		r.Header["Prefer"] = a.prefer
	}
	f.sent = &forwardedAnswer{call: &f.call, header: make(http.Header)}
	return f.sent, r
}

// forwardedAnswer is the ResponseWriter for the answer of a leader to a call in a frame.
type forwardedAnswer struct {
	call   *call
	header http.Header
	body   []byte
}

// Header implements http.ResponseWriter.
func (a *forwardedAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *forwardedAnswer) WriteHeader(status int) {
	if !a.call.begun && status >= http.StatusOK {
		a.call.status, a.call.begun = status, true
	}
}

// Write implements http.ResponseWriter.
func (a *forwardedAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, b...)
	return len(b), nil
}

func (a *forwardedAnswer) reply() frame.Answer {
	return frame.Answer{
		Status: uint32(a.call.status), Body: a.body, LSN: first(a.header[headerLSN]), Committed: first(a.header[headerCommitted]),
		Replayed: len(a.header[headerReplayed]) > 0,
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
