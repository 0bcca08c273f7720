package api

import (
	"context"
	"math"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// within makes the calls of a handler of Config.Wrap.
type within struct{ s *Server }

// kept keeps strings as they were sent: lone surrogates exist only as escapes.
var kept = json.JoinOptions(core.Lenient, jsontext.PreserveRawStrings(true))

// Call implements core.Calls. A v1.Message is in protobuf on its way, as in a stream: the core checks it as that of any
// client, a leader elsewhere gets the same bytes, and the caller shares no memory with the state.
func (w within) Call(ctx context.Context, method, target, remote string, in, out any) (p *v1.Problem) {
	var body []byte
	var err error
	message, proto := in.(v1.Message)
	switch {
	case proto:
		body, _ = message.AppendProto(nil) // a name that is not UTF-8 gets U+FFFD
	case in != nil:
		body, err = json.Marshal(in, kept)
	}
	f := plainCalls.Get().(*plainCall)
	if err == nil {
		err = f.begin(ctx, w.s, method, target, remote, body)
	}
	if err != nil {
		plainCalls.Put(f)
		return problemOf(err)
	}
	if proto {
		f.ContentType = v1.MediaTypeProtobuf
	}
	w.do(f, func() {
		if f.Broken || f.Status == 0 {
			err = core.Fail(core.BrokeOff, "the connection to the leader broke before it answered")
		} else {
			p, err = f.read(out)
		}
	})
	if err != nil {
		return problemOf(err)
	}
	return p
}

func problemOf(err error) *v1.Problem { return new(core.FailureOf(err).Problem(true)) }

// read reads the answer into out, unless that is nil.
func (f *plainCall) read(out any) (*v1.Problem, error) {
	switch body := f.whole(); {
	case f.Status >= http.StatusMultipleChoices:
		p := new(v1.Problem)
		if err := json.Unmarshal(body, p, core.Lenient); err != nil || p.Tag == "" {
			p = &v1.Problem{Tag: v1.TagInternal, Detail: http.StatusText(f.Status)}
		}
		p.Status = f.Status
		return p, nil
	case out == nil:
		return nil, nil
	case f.Proto:
		return nil, out.(v1.Message).ParseProto(body, math.MaxInt)
	default:
		return nil, json.Unmarshal(body, out, kept)
	}
}

// Pass implements core.Calls.
func (w within) Pass(ctx context.Context, method, target, remote string, body []byte, into http.ResponseWriter) (whole bool) {
	f := plainCalls.Get().(*plainCall)
	if err := f.begin(ctx, w.s, method, target, remote, body); err != nil {
		plainCalls.Put(f)
		a := refusal(err)
		into.Header()["Content-Type"] = problemType
		into.WriteHeader(int(a.Status))
		_, err = into.Write(a.Body)
		return err == nil
	}
	f.into = into
	w.do(f, func() {
		if f.Broken || f.Status == 0 {
			return
		}
		if !f.Begun {
			writeHead(into, f.Core, &f.Answered)
		}
		_, err := into.Write(f.Out)
		whole = err == nil
	})
	return whole
}

// do answers a call, and calls answer to use what it has. If the handler aborts, the answer has broken off.
func (w within) do(f *plainCall, answer func()) {
	conn, _ := f.Ctx.Value(connKey{}).(*boundedConn)
	f.Inner, f.Legacy = true, conn != nil && conn.legacy
	sound := false
	defer func() {
		f.Held.Release()
		if sound { // a handler that panicked may use f
			f.recycle()
		}
	}()
	func() {
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
				panic(p)
			}
			f.Broken = f.Broken || p != nil
		}()
		sound = w.s.Do(&f.Call)
	}()
	answer()
}
