package api

import (
	"bytes"
	"cmp"
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

// plainCall is a call that is no request over HTTP: in a frame of a stream, or from this process.
type plainCall struct {
	core.Call
	body   bytes.Reader
	sent   *forwardedAnswer // of a leader; nil: this node answers
	into   io.Writer        // where the body of an answer of several parts goes; nil: calls have one part
	keys   [1]string
	prefer [1]string
	reply  frame.Answer
}

var plainCalls = sync.Pool{New: func() any { return new(plainCall) }}

// Answer implements stream.Handler.
func (h *framed) Answer(ctx context.Context, req *frame.Request, to stream.Sender) {
	if strings.HasPrefix(req.Target, v1.PathClaim) || req.Target == v1.PathLogs { // it may wait
		cred, _ := ctx.Value(core.CredentialKey{}).(*core.Credential)
		var stop context.CancelFunc
		ctx, stop = h.s.WhileValid(ctx, cred)
		defer stop()
	}
	f := plainCalls.Get().(*plainCall)
	if err := f.readFrame(h, ctx, req); err != nil {
		to.Send(refusal(err))
		plainCalls.Put(f)
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
func (h *framed) do(f *plainCall) (sound, whole bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			h.s.Log.Error("a call over a stream panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	sound = h.s.Do(&f.Call)
	return sound, true
}

// readFrame makes the call of a request in a frame.
func (f *plainCall) readFrame(h *framed, ctx context.Context, req *frame.Request) error {
	if h.s.Closing.Err() != nil {
		return core.Fail(core.Closing, "this node is shutting down; use another node")
	}
	if len(req.Target)+len(req.Key)+len(req.Prefer) > headMax {
		return core.Fail(core.BadRequest, "the target, the key and the preference have more than %d bytes", headMax)
	}
	if err := f.begin(ctx, h.s, cmp.Or(req.Method, http.MethodPost), req.Target, h.remote, req.Body); err != nil {
		return err
	}
	if !f.Route.Writes() {
		return core.Fail(core.NoRoute, noWrite, core.Shown(f.Method), core.Shown(f.Path))
	}
	if req.Key != "" {
		f.keys[0] = req.Key
		f.Asked.Keys = f.keys[:]
	}
	if req.Prefer != "" {
		f.prefer[0] = req.Prefer
		f.Asked.Prefer = f.prefer[:]
	}
	return nil
}

const noWrite = "%s %s is not a write of the HTTP API; a stream carries only writes"

// begin makes the call of a method and target for the client at remote.
func (f *plainCall) begin(ctx context.Context, s *Server, method, target, remote string, body []byte) error {
	path, query := target, ""
	if s.calls[http.MethodPost+" "+path] == nil { // else it is as it is in a request over HTTP
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Path == "" || u.Host != "" || strings.Contains(target, " ") {
			return core.Fail(core.BadRequest, "the target %q of the request is not a path", core.Shown(target))
		}
		path, query = u.EscapedPath(), u.RawQuery
	}
	rt, object := s.routeOf(method, path)
	if rt == nil {
		return core.Fail(core.NoRoute, noWrite, core.Shown(method), core.Shown(path))
	}
	f.Call.Begin(ctx, s.Core, rt, f)
	f.Asked = core.Asked{Method: method, Path: path, RawQuery: query, Object: object, Remote: remote, From: remote}
	f.body.Reset(body)
	return nil
}

// headMax bounds the parts of a request in a frame that are the head of a request over HTTP, in which a follower
// forwards them.
const headMax = headerBytesMax / 2

// encode returns the answer in a frame.
func (f *plainCall) encode() *frame.Answer {
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
func (f *plainCall) recycle() {
	f.Reset()
	f.body.Reset(nil)
	f.reply, f.sent, f.into = frame.Answer{}, nil, nil
	plainCalls.Put(f)
}

// within makes the calls of a handler of Config.Wrap.
type within struct{ s *Server }

// ServeHTTP implements core.Calls.
func (w within) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w.s.ServeHTTP(to, r.WithContext(context.WithValue(r.Context(), core.WithinKey{}, true)))
}

// Call implements core.Calls.
func (w within) Call(ctx context.Context, method, target, remote string, body []byte, into io.Writer) (status int, whole bool) {
	f := plainCalls.Get().(*plainCall)
	if err := f.begin(ctx, w.s, method, target, remote, body); err != nil {
		plainCalls.Put(f)
		a := refusal(err)
		_, err = into.Write(a.Body)
		return int(a.Status), err == nil
	}
	conn, _ := ctx.Value(connKey{}).(*boundedConn)
	f.Inner, f.Legacy, f.into = true, conn != nil && conn.legacy, into
	sound := false
	defer func() {
		f.Held.Release()
		if sound { // a handler that panicked may use f
			f.recycle()
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			panic(p)
		}
	}()
	sound = w.s.Do(&f.Call)
	status, whole = f.Status, f.Status != 0 && !f.Broken
	if f.sent == nil || !f.Begun {
		_, err := into.Write(f.Out)
		whole = whole && err == nil
	}
	return status, whole
}

// Credential implements peer: that of the upgrade of a stream, or of the request for which this process makes the call.
func (f *plainCall) Credential() *core.Credential {
	if cred, ok := f.Ctx.Value(core.CredentialKey{}).(*core.Credential); ok {
		return cred
	}
	return &core.Credential{}
}

// CheckMedia implements peer.
func (f *plainCall) CheckMedia() error { return nil }

// Body implements peer.
func (f *plainCall) Body() (io.ReadCloser, int64) {
	return io.NopCloser(&f.body), int64(f.body.Len())
}

// SendPart implements peer. Writes, which streams carry, have one part.
func (f *plainCall) SendPart() error {
	if f.into == nil {
		return errors.ErrUnsupported
	}
	f.Begun = true
	_, err := f.into.Write(f.Out)
	f.Out = f.Out[:0]
	return err
}

// HoldOff implements peer. The connection bounds each write, and this process its own calls.
func (f *plainCall) HoldOff(time.Duration) {}

// Exchange implements peer.
func (f *plainCall) Exchange() (http.ResponseWriter, *http.Request) {
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
	f.sent = &forwardedAnswer{call: &f.Call, header: make(http.Header), into: f.into}
	return f.sent, r
}

// forwardedAnswer is the ResponseWriter for the answer of a leader to a plain call.
type forwardedAnswer struct {
	call   *core.Call
	header http.Header
	into   io.Writer // gets the body, unless it is nil
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
	if a.into != nil {
		return a.into.Write(b)
	}
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
