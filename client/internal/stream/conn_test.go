package stream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/client/api/v1/frame"
	"osqueue/client/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a server whose side of one connection a test writes by hand.
type server struct {
	t     *testing.T
	conn  net.Conn
	in    *bufio.Reader
	c     *stream.Conn
	moved chan frame.Moved
}

// dial opens a stream to a server that says hello.
func dial(t *testing.T, hello frame.Hello) *server {
	t.Helper()
	s := &server{t: t, moved: make(chan frame.Moved, 1)}
	conns := make(chan net.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		s.in = rw.Reader
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: osqueue-stream\r\n\r\n")
		b, _ := frame.Append(nil, frame.KindHello, 0, &hello)
		_, _ = conn.Write(b)
		conns <- conn
	}))
	t.Cleanup(srv.Close)
	rt := &http.Transport{}
	t.Cleanup(rt.CloseIdleConnections)
	c, err := stream.Dial(t.Context(), rt, srv.URL, "test", "", func(m frame.Moved) { s.moved <- m })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s.c, s.conn = c, <-conns
	t.Cleanup(func() { _ = s.conn.Close() })
	_ = s.conn.SetDeadline(time.Now().Add(10 * time.Second))
	s.read(frame.KindHello)
	return s
}

func (s *server) read(k frame.Kind) uint32 {
	s.t.Helper()
	var buf [frame.HeadBytes]byte
	head, err := frame.ReadHead(s.in, &buf)
	if err != nil || head.Kind != k {
		s.t.Fatalf("%+v, %v; want the kind %d", head, err, k)
	}
	if _, err := io.CopyN(io.Discard, s.in, int64(head.Length)); err != nil {
		s.t.Fatal(err)
	}
	return head.ID
}

func (s *server) write(k frame.Kind, id uint32, m frame.Message) {
	s.t.Helper()
	b, err := frame.Append(nil, k, id, m)
	if err == nil {
		_, err = s.conn.Write(b)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

type done struct {
	answer frame.Answer
	sent   bool
	err    error
}

func (s *server) do(ctx context.Context, limit int64) <-chan done {
	return s.doUntil(ctx, stream.Cut{After: time.Minute}, limit)
}

func (s *server) doUntil(ctx context.Context, cut stream.Cut, limit int64) <-chan done {
	out := make(chan done, 1)
	go func() {
		a, sent, err := s.c.Do(ctx, cut, &frame.Request{Target: "/v1/jobs"}, limit)
		out <- done{a, sent, err}
	}()
	return out
}

func TestAnswersInAnyOrder(t *testing.T) {
	s := dial(t, frame.Hello{Version: 1})
	first := s.do(t.Context(), 100)
	a := s.read(frame.KindRequest)
	second := s.do(t.Context(), 100)
	b := s.read(frame.KindRequest)
	s.write(frame.KindPing, 9, nil)
	s.write(99, 0, frame.Bytes("of a later version"))
	if id := s.read(frame.KindPong); id != 9 {
		t.Errorf("pong %d", id)
	}
	s.write(frame.KindAnswer, b, &frame.Answer{Status: 201})
	s.write(frame.KindAnswer, 77, &frame.Answer{Status: 203})
	s.write(frame.KindAnswer, a, &frame.Answer{Status: 202, Body: make([]byte, 9000)})
	if r := <-second; r.err != nil || r.answer.Status != 201 || !r.sent {
		t.Errorf("%+v", r)
	}
	if r := <-first; !errors.Is(r.err, stream.ErrTooLarge) {
		t.Errorf("%+v", r)
	}
}

func TestGivingUp(t *testing.T) {
	s := dial(t, frame.Hello{Version: 1})
	ctx, cancel := context.WithCancel(t.Context())
	call := s.do(ctx, 100)
	id := s.read(frame.KindRequest)
	cancel()
	if r := <-call; !errors.Is(r.err, context.Canceled) || !r.sent {
		t.Errorf("%+v", r)
	}
	if got := s.read(frame.KindCancel); got != id {
		t.Errorf("cancelled %d, want %d", got, id)
	}
	s.write(frame.KindAnswer, id, &frame.Answer{Status: 200}) // too late
	if n, usable := s.c.Load(); n != 0 || !usable {
		t.Errorf("%d in progress, usable %v", n, usable)
	}
}

// A call ends when it is cut off, and tells the server; the next call has its own time.
func TestCut(t *testing.T) {
	s := dial(t, frame.Hello{Version: 1})
	gone := make(chan struct{})
	for _, c := range []struct {
		cut  stream.Cut
		want error
	}{
		{stream.Cut{After: time.Millisecond}, stream.ErrSlow},
		{stream.Cut{After: time.Minute, When: gone}, stream.ErrCut},
	} {
		call := s.doUntil(t.Context(), c.cut, 100)
		id := s.read(frame.KindRequest)
		if errors.Is(c.want, stream.ErrCut) {
			close(gone)
		}
		if r := <-call; !errors.Is(r.err, c.want) {
			t.Errorf("%v: %+v", c.want, r)
		}
		if got := s.read(frame.KindCancel); got != id {
			t.Errorf("cancelled %d, want %d", got, id)
		}
	}
	for range 3 {
		call := s.do(t.Context(), 100)
		s.write(frame.KindAnswer, s.read(frame.KindRequest), &frame.Answer{Status: 200})
		if r := <-call; r.err != nil {
			t.Errorf("after the cut: %v", r.err)
		}
	}
}

// A connection that breaks ends its calls: those that were sent have no known outcome.
func TestBrokenConnection(t *testing.T) {
	s := dial(t, frame.Hello{Version: 1})
	call := s.do(t.Context(), 100)
	s.read(frame.KindRequest)
	_ = s.conn.Close()
	if r := <-call; r.err == nil || !r.sent {
		t.Errorf("%+v", r)
	}
	if r := <-s.do(t.Context(), 100); !errors.Is(r.err, stream.ErrClosed) || r.sent {
		t.Errorf("%+v", r)
	}
}

func TestSilentServer(t *testing.T) {
	s := dial(t, frame.Hello{Version: 1, PingMillis: 5})
	call := s.do(t.Context(), 100)
	s.read(frame.KindRequest)
	if r := <-call; r.err == nil || !r.sent {
		t.Errorf("%+v", r)
	}
}

// A server that closes gets no more requests, and the answers in progress still arrive.
func TestMoved(t *testing.T) {
	s := dial(t, frame.Hello{Version: 1, InFlight: 1})
	call := s.do(t.Context(), 100)
	id := s.read(frame.KindRequest)
	if n, usable := s.c.Load(); n != 1 || usable {
		t.Errorf("%d in progress, usable %v", n, usable)
	}
	s.write(frame.KindMoved, 0, &frame.Moved{Leader: "a:1", Closing: true})
	if m := <-s.moved; m.Leader != "a:1" {
		t.Errorf("%+v", m)
	}
	if r := <-s.do(t.Context(), 100); !errors.Is(r.err, stream.ErrClosed) {
		t.Errorf("%+v", r)
	}
	s.write(frame.KindAnswer, id, &frame.Answer{Status: 200})
	if r := <-call; r.err != nil || r.answer.Status != 200 {
		t.Errorf("%+v", r)
	}
	if _, err := s.in.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
}

func TestRefused(t *testing.T) {
	for status, known := range map[int]bool{404: false, 426: false, 503: true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		rt := &http.Transport{}
		_, err := stream.Dial(t.Context(), rt, srv.URL, "test", "", nil)
		if refused := (*stream.RefusedError)(nil); !errors.As(err, &refused) || refused.Known() != known {
			t.Errorf("%d: %v", status, err)
		}
		rt.CloseIdleConnections()
		srv.Close()
	}
}

// A server that opens the stream and sends nothing does not hold the dial.
func TestDialEnds(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: osqueue-stream\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	if _, err := stream.Dial(ctx, rt, srv.URL, "test", "", nil); err == nil {
		t.Error("opened a stream")
	}
}
