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
	head   http.Request // what the router matches
	url    url.URL      // of head
	body   wholeBody
	into   http.ResponseWriter // of an answer of several parts; nil: f keeps them all
	parts  []byte              // of an answer, without the last
	keys   [1]string
	prefer [1]string
	reply  frame.Answer
}

var plainCalls = sync.Pool{New: func() any { return new(plainCall) }}

// wholeBody is a body that has arrived.
type wholeBody struct{ bytes.Reader }

// Close implements io.Closer.
func (*wholeBody) Close() error { return nil }

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
	return sound, !f.Broken
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
	if req.Proto {
		f.ContentType = v1.MediaTypeProtobuf
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
	f.url = url.URL{Path: target}
	if !strings.HasPrefix(target, "/") || strings.ContainsFunc(target, rare) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Path == "" || u.Host != "" || strings.Contains(target, " ") {
			return core.Fail(core.BadRequest, "the target %q of the request is not a path", core.Shown(target))
		}
		f.url = *u
	}
	f.head.Method, f.head.URL = method, &f.url
	rt, object, second := s.routeOf(&f.head)
	path := f.url.EscapedPath()
	if rt == nil {
		return core.Fail(core.NoRoute, noWrite, core.Shown(method), core.Shown(path))
	}
	f.Call.Begin(ctx, s.Core, rt, f)
	f.Asked = core.Asked{Method: method, Path: path, RawQuery: f.url.RawQuery, Object: object, Second: second, Remote: remote, From: remote, ContentType: "application/json"}
	f.body.Reset(body)
	return nil
}

// rare reports whether c is in few targets: they may have an escape or a query, and are parsed.
func rare(c rune) bool {
	return c != '/' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
}

// headMax bounds the parts of a request in a frame that are the head of a request over HTTP, in which a follower
// forwards them.
const headMax = headerBytesMax / 2

// encode returns the answer in a frame.
func (f *plainCall) encode() *frame.Answer {
	f.reply = frame.Answer{Status: uint32(f.Status), Body: f.whole(), Committed: f.Committed, Replayed: f.Replayed, Proto: f.Proto}
	if !f.Lsn.IsZero() {
		f.reply.LSN = f.Core.LsnHeader(f.Lsn)[0]
	}
	return &f.reply
}

// whole returns the body of the answer.
func (f *plainCall) whole() []byte {
	if len(f.parts) == 0 {
		return f.Out
	}
	return append(f.parts, f.Out...)
}

// recycle returns f to the pool.
func (f *plainCall) recycle() {
	f.Reset()
	f.body.Reset(nil)
	f.reply, f.parts, f.into = frame.Answer{}, nil, nil
	plainCalls.Put(f)
}

// Credential implements peer: that of the upgrade of a stream, or of the request for which this process makes the call.
func (f *plainCall) Credential() *core.Credential {
	if cred, ok := f.Ctx.Value(core.CredentialKey{}).(*core.Credential); ok {
		return cred
	}
	return &core.Credential{}
}

// Body implements peer.
func (f *plainCall) Body() (io.ReadCloser, int64) {
	return &f.body, int64(f.body.Len())
}

// SendPart implements peer. Writes, which streams carry, have one part, unless a leader sends them.
func (f *plainCall) SendPart() error {
	if f.into == nil {
		f.Held.Force(len(f.Out))
		f.parts, f.Begun = append(f.parts, f.Out...), true
		f.Out = f.Out[:0]
		return nil
	}
	if !f.Begun {
		writeHead(f.into, f.Core, &f.Answered)
	}
	_, err := f.into.Write(f.Out)
	f.Out = f.Out[:0]
	return err
}

// HoldOff implements peer. The connection bounds each write, and this process its own calls.
func (f *plainCall) HoldOff(time.Duration) {}

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
