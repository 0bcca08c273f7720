package stream_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"osqueue/api/stream"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/limit"
)

// echo answers every request with its body.
type echo struct{}

func (echo) Answer(_ context.Context, req *frame.Request, to stream.Sender) {
	to.Send(&frame.Answer{Status: 200, Body: req.Body})
}

func (echo) Refuse(err error) *frame.Answer {
	return &frame.Answer{Status: 503, Body: []byte(err.Error())}
}

// sink is a connection with a fixed input.
type sink struct {
	net.Conn
	in io.Reader
}

func (s *sink) Read(b []byte) (int, error)         { return s.in.Read(b) }
func (s *sink) Write(b []byte) (int, error)        { return len(b), nil }
func (s *sink) Close() error                       { return nil }
func (s *sink) SetReadDeadline(_ time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(_ time.Time) error { return nil }

// Any input ends the connection, and returns all bytes to the budget.
func FuzzConn(f *testing.F) {
	frames := func(list ...func([]byte) []byte) []byte {
		var b []byte
		for _, one := range list {
			b = one(b)
		}
		return b
	}
	add := func(k frame.Kind, id uint32, m frame.Message) func([]byte) []byte {
		return func(b []byte) []byte {
			b, err := frame.Append(b, k, id, m)
			if err != nil {
				f.Fatal(err)
			}
			return b
		}
	}
	hello := add(frame.KindHello, 0, &frame.Hello{Version: 1})
	request := add(frame.KindRequest, 1, &frame.Request{Target: "/v1/jobs", Body: []byte("{}")})
	f.Add(frames(hello, request, add(frame.KindCancel, 1, nil), add(frame.KindPing, 2, nil), request))
	f.Add(frames(request))
	f.Add(frames(hello, add(99, 0, frame.Bytes("x")), add(frame.KindRequest, 2, frame.Bytes(make([]byte, 20_000)))))
	f.Fuzz(func(t *testing.T, in []byte) {
		limits := stream.Limits{InFlight: 2, BodyBytes: 100, QueuedBytes: 200, WriteTimeout: time.Second, Ping: time.Second}
		budget := limit.NewBudget(50_000)
		c := stream.New(&sink{}, bytes.NewReader(in), "n", limits, budget, echo{})
		if err := c.Serve(t.Context()); err == nil {
			t.Error("ended without a reason")
		}
		if n := budget.Used(); n != 0 {
			t.Errorf("%d bytes of the budget are lost", n)
		}
	})
}
