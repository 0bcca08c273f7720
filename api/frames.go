package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"osqueue/api/core"
	"osqueue/api/stream"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/limit"
)

// framed answers the requests of one stream.
type framed struct {
	s      *Server
	remote string // address of the client
}

// framedCall is a call in a frame.
type framedCall struct {
	core.Call
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
		cred, _ := ctx.Value(core.CredentialKey{}).(*core.Credential)
		var stop context.CancelFunc
		ctx, stop = h.s.WhileValid(ctx, cred)
		defer stop()
	}
	f := framedCalls.Get().(*framedCall)
	if err := f.read(h, ctx, req); err != nil {
		to.Send(refusal(err))
		framedCalls.Put(f)
		return
	}
	sound, whole := h.do(f)
	if whole {
		to.Send(f.encode())
	} else {
		to.Send(refusal(core.Fail(core.BrokeOff, "the answer broke off, or the connection to the leader did")))
	}
	f.Held.Release()
	if sound && whole { // a handler that panicked may use f
		f.recycle()
	}
}

// do answers a call. whole is false if the answer broke off.
func (h *framed) do(f *framedCall) (sound, whole bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			h.s.Log.Error("a call over a stream panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	sound = h.s.Do(&f.Call)
	return sound, true
}

// read makes the call of a request.
func (f *framedCall) read(h *framed, ctx context.Context, req *frame.Request) error {
	if h.s.Closing.Err() != nil {
		return core.Fail(core.Closing, "this node is shutting down; use another node")
	}
	if len(req.Target)+len(req.Key)+len(req.Prefer) > headMax {
		return core.Fail(core.BadRequest, "the target, the key and the preference have more than %d bytes", headMax)
	}
	path, query := req.Target, ""
	if h.s.calls[http.MethodPost+" "+path] == nil { // else it is as it is in a request over HTTP
		u, err := url.ParseRequestURI(req.Target)
		if err != nil || u.Path == "" || u.Host != "" || strings.Contains(req.Target, " ") {
			return core.Fail(core.BadRequest, "the target %q of the request is not a path", core.Shown(req.Target))
		}
		path, query = u.EscapedPath(), u.RawQuery
	}
	if method := req.Method; method == "" {
		f.method = http.MethodPost
	} else {
		f.method = method
	}
	rt, object := h.s.routeOf(f.method, path)
	if rt == nil || !rt.Writes() {
		return core.Fail(core.NoRoute, "%s %s is not a write of the HTTP API; a stream carries only writes", core.Shown(f.method), core.Shown(path))
	}
	f.Call.Begin(ctx, h.s.Core, rt, f)
	f.Asked = core.Asked{Method: f.method, Path: path, RawQuery: query, Object: object, Remote: h.remote, From: h.remote}
	if req.Key != "" {
		f.keys[0] = req.Key
		f.Asked.Keys = f.keys[:]
	}
	if req.Prefer != "" {
		f.prefer[0] = req.Prefer
		f.Asked.Prefer = f.prefer[:]
	}
	f.reqBody.Reset(req.Body)
	return nil
}

// headMax bounds the parts of a request in a frame that are the head of a request over HTTP, in which a follower
// forwards them.
const headMax = headerBytesMax / 2

// encode returns the answer.
func (f *framedCall) encode() *frame.Answer {
	f.reply = frame.Answer{Status: uint32(f.Status), Body: f.Out, Committed: f.Committed, Replayed: f.Replayed}
	switch {
	case f.sent != nil && f.Begun:
		f.reply = f.sent.reply()
	case !f.Lsn.IsZero():
		f.reply.LSN = f.Core.LsnHeader(f.Lsn)[0]
	}
	return &f.reply
}

// recycle returns f to the pool.
func (f *framedCall) recycle() {
	f.Reset()
	f.reqBody.Reset(nil)
	f.reply, f.sent = frame.Answer{}, nil
	framedCalls.Put(f)
}

// Credential implements peer: a stream has that of its upgrade.
func (f *framedCall) Credential() *core.Credential {
	if cred, ok := f.Ctx.Value(core.CredentialKey{}).(*core.Credential); ok {
		return cred
	}
	return &core.Credential{}
}

// CheckMedia implements peer.
func (f *framedCall) CheckMedia() error { return nil }

// Body implements peer.
func (f *framedCall) Body() (io.ReadCloser, int64) {
	return io.NopCloser(&f.reqBody), int64(f.reqBody.Len())
}

// SendPart implements peer. Writes have short answers.
func (f *framedCall) SendPart() error { return errors.ErrUnsupported }

// HoldOff implements peer. The connection bounds each write.
func (f *framedCall) HoldOff(time.Duration) {}

// Exchange implements peer.
func (f *framedCall) Exchange() (http.ResponseWriter, *http.Request) {
	a := &f.Asked
	r := (&http.Request{
		Method: a.Method, URL: &url.URL{Path: f.PathText(), RawPath: a.Path, RawQuery: a.RawQuery}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, RemoteAddr: a.Remote,
	}).WithContext(f.Ctx)
	if a.Keys != nil {
		r.Header[core.HeaderKey] = a.Keys
	}
	if a.Prefer != nil {
		r.Header["Prefer"] = a.Prefer
	}
	f.sent = &forwardedAnswer{call: &f.Call, header: make(http.Header)}
	return f.sent, r
}

// forwardedAnswer is the ResponseWriter for the answer of a leader to a call in a frame.
type forwardedAnswer struct {
	call   *core.Call
	header http.Header
	body   []byte
}

// Header implements http.ResponseWriter.
func (a *forwardedAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *forwardedAnswer) WriteHeader(status int) {
	if !a.call.Begun && status >= http.StatusOK {
		a.call.Status, a.call.Begun = status, true
	}
}

// Write implements http.ResponseWriter.
func (a *forwardedAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.call.Held.Force(len(b))
	a.body = append(a.body, b...)
	return len(b), nil
}

func (a *forwardedAnswer) reply() frame.Answer {
	return frame.Answer{
		Status: uint32(a.call.Status), Body: a.body, LSN: core.First(a.header[headerLSN]), Committed: core.First(a.header[core.HeaderCommitted]),
		Replayed: len(a.header[core.HeaderReplayed]) > 0,
	}
}

// Refuse implements stream.Handler.
func (h *framed) Refuse(err error) *frame.Answer {
	switch {
	case errors.Is(err, stream.ErrTooLarge):
		return refusal(core.BodyTooLarge(h.s.Config.MaxBody))
	case errors.Is(err, limit.ErrOver):
		return refusal(core.BrokenBody(err, 0))
	case errors.Is(err, stream.ErrInFlight):
		return refusal(core.Fail(core.OverBudget, "this connection has too many requests in progress; retry after a moment"))
	}
	return refusal(err)
}

// refusal returns the answer to a request that no handler has seen.
func refusal(err error) *frame.Answer {
	f := core.FailureOf(err)
	body, err := core.Marshal(f.Problem(true))
	if err != nil {
		body = []byte(`{"_tag":"` + v1.TagInternal + `"}`)
	}
	return &frame.Answer{Status: uint32(f.Status), Body: body}
}
