package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/api/stream"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the client's end of a connection that a test serves.
type peer struct {
	t      *testing.T
	conn   net.Conn
	served *stream.Conn
	result chan error
	budget *limit.Budget
}

func serve(t *testing.T, limits stream.Limits, h stream.Handler) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: near, result: make(chan error, 1), budget: limit.NewBudget(1 << 20)}
	p.served = stream.New(far, far, "n", limits, p.budget, h)
	go func() { p.result <- p.served.Serve(context.Background()) }()
	_ = near.SetDeadline(time.Now().Add(10 * time.Second))
	p.send(frame.KindHello, 0, &frame.Hello{Version: 1})
	p.read()
	t.Cleanup(func() { _ = near.Close() })
	return p
}

func (p *peer) send(k frame.Kind, id uint32, m frame.Message) {
	p.t.Helper()
	b, err := frame.Append(nil, k, id, m)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read() (frame.Head, frame.Answer) {
	p.t.Helper()
	var buf [frame.HeadBytes]byte
	head, err := frame.ReadHead(p.conn, &buf)
	if err != nil {
		p.t.Fatal(err)
	}
	body := make([]byte, head.Length)
	if _, err := io.ReadFull(p.conn, body); err != nil {
		p.t.Fatal(err)
	}
	var a frame.Answer
	if head.Kind == frame.KindAnswer {
		if err := a.Parse(body); err != nil {
			p.t.Fatal(err)
		}
	}
	return head, a
}

// gate answers a request when the test lets it, with as many bytes as its target has letters
// times 1000.
type gate struct {
	echo
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) Answer(ctx context.Context, req *frame.Request, to stream.Sender) {
	g.entered <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	to.Send(&frame.Answer{Status: 200, Body: bytes.Repeat([]byte("x"), 1000*len(req.Target))})
}

func limits() stream.Limits {
	return stream.Limits{InFlight: 2, BodyBytes: 100_000, QueuedBytes: 100_000, WriteTimeout: 200 * time.Millisecond, Ping: 10 * time.Second}
}

// sender answers, and then keeps its goroutine until the end.
type sender struct{ *gate }

func (s sender) Answer(_ context.Context, _ *frame.Request, to stream.Sender) {
	to.Send(&frame.Answer{Status: 200})
	<-s.open
}

// A client that has an answer can use its id and its place again at once.
func TestConnAfterAnAnswer(t *testing.T) {
	s := sender{newGate()}
	defer close(s.open)
	p := serve(t, limits(), s)
	for range 3 * limits().InFlight {
		p.send(frame.KindRequest, 1, &frame.Request{Target: "a"})
		if head, a := p.read(); head.ID != 1 || a.Status != 200 {
			t.Fatalf("%+v %d %s", head, a.Status, a.Body)
		}
	}
}

func TestConnRefusesBeyondItsLimits(t *testing.T) {
	g := newGate()
	p := serve(t, limits(), g)
	p.send(frame.KindRequest, 1, &frame.Request{Target: "a"})
	p.send(frame.KindRequest, 2, &frame.Request{Target: "a"})
	p.send(frame.KindRequest, 3, &frame.Request{Target: "a"})
	if head, a := p.read(); head.ID != 3 || string(a.Body) != stream.ErrInFlight.Error() {
		t.Fatalf("%+v %s", head, a.Body)
	}
	p.send(frame.KindRequest, 4, &frame.Request{Body: make([]byte, 110_000)})
	if head, a := p.read(); head.ID != 4 || string(a.Body) != stream.ErrTooLarge.Error() {
		t.Fatalf("%+v %s", head, a.Body)
	}
	hold := p.budget.Hold()
	hold.Force(1 << 20)
	p.send(frame.KindRequest, 5, &frame.Request{})
	if head, a := p.read(); head.ID != 5 || string(a.Body) != limit.ErrOver.Error() {
		t.Fatalf("%+v %s", head, a.Body)
	}
	hold.Release()
	p.send(frame.KindCancel, 2, nil)
	if head, _ := p.read(); head.ID != 2 {
		t.Fatalf("%+v", head)
	}
	p.send(frame.KindRequest, 1, &frame.Request{})
	if err := <-p.result; err == nil || !strings.Contains(err.Error(), "two requests") {
		t.Errorf("ended: %v", err)
	}
	if n := p.budget.Used(); n != 0 {
		t.Errorf("%d bytes of the budget are lost", n)
	}
}

// A body takes bytes of the budget as it arrives: what is announced only takes next to none. A body that does
// not fit is refused, and the frames after it are read.
func TestAnAnnouncedBodyTakesNoBudget(t *testing.T) {
	const announced, arrived = 90_000, 20_000
	g := newGate()
	close(g.open)
	p := serve(t, limits(), g)
	request, err := frame.Append(nil, frame.KindRequest, 1, &frame.Request{Body: make([]byte, announced)})
	if err != nil {
		t.Fatal(err)
	}
	send := func(part []byte) {
		t.Helper()
		if _, err := p.conn.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	used := func(least, most int64) {
		t.Helper()
		for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			n := p.budget.Used()
			if least <= n && n <= most {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%d bytes of the budget are taken; want %d to %d", n, least, most)
			}
		}
	}
	send(request[:100])
	used(1, 8<<10)
	send(request[100:arrived])
	used(arrived, 3*arrived)
	send(request[arrived:])
	if head, a := p.read(); head.ID != 1 || a.Status != 200 {
		t.Fatalf("%+v %s", head, a.Body)
	}
	used(0, 0)

	send(request[:arrived])
	used(arrived, 3*arrived)
	others := p.budget.Hold()
	others.Force(1 << 20)
	send(request[arrived:])
	if head, a := p.read(); head.ID != 1 || string(a.Body) != limit.ErrOver.Error() {
		t.Fatalf("%+v %s", head, a.Body)
	}
	others.Release()
	used(0, 0)
	send(request)
	if head, a := p.read(); head.ID != 1 || a.Status != 200 {
		t.Errorf("%+v %s", head, a.Body)
	}
}

// Requests beyond the bytes in progress are read when earlier ones have ended.
func TestConnHoldsRequestsBack(t *testing.T) {
	g := newGate()
	p := serve(t, limits(), g)
	for id := range uint32(2) {
		p.send(frame.KindRequest, id, &frame.Request{Body: make([]byte, 60_000)})
	}
	<-g.entered
	select {
	case <-g.entered:
		t.Fatal("the second request was not held back")
	case <-time.After(20 * time.Millisecond):
	}
	close(g.open)
	p.read()
	p.read()
	p.served.Drain()
	if head, _ := p.read(); head.Kind != frame.KindMoved {
		t.Errorf("%+v", head)
	}
	if err := <-p.result; err != nil {
		t.Errorf("drained: %v", err)
	}
}

// A client that does not read is disconnected, and its answers take a bounded number of bytes.
func TestConnEndsASlowReader(t *testing.T) {
	g := newGate()
	close(g.open)
	p := serve(t, limits(), g)
	go func() {
		b, _ := frame.Append(nil, frame.KindRequest, 1, &frame.Request{Target: strings.Repeat("a", 200)})
		for id := uint32(1); ; id++ {
			copy(b, frame.AppendHead(nil, frame.Head{Length: uint32(len(b) - frame.HeadBytes), Kind: frame.KindRequest, ID: id}))
			if _, err := p.conn.Write(b); err != nil {
				return
			}
		}
	}()
	peak := int64(0)
	for {
		select {
		case err := <-p.result:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ended: %v", err)
			}
			if peak > 2_000_000 {
				t.Errorf("%d bytes were in memory", peak)
			}
			return
		case <-time.After(time.Millisecond):
			peak = max(peak, p.budget.Used())
		}
	}
}

// A client that sends pings and does not read makes the output no larger than its bound.
func TestPingsOfAClientThatDoesNotRead(t *testing.T) {
	const bound = 64 << 10
	budget := limit.NewBudget(1 << 30)
	near, far := net.Pipe() // has no buffer of its own
	limits := stream.DefaultLimits(1 << 20)
	limits.QueuedBytes, limits.WriteTimeout = bound, time.Minute
	conn := stream.New(far, far, "n", limits, budget, nil)
	ended := make(chan error, 1)
	go func() { ended <- conn.Serve(context.Background()) }()
	hello, err := frame.Append(nil, frame.KindHello, 0, &frame.Hello{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	ping, err := frame.Append(nil, frame.KindPing, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = near.SetWriteDeadline(time.Now().Add(3 * time.Second))
	sent := 0
	for data := append(hello, bytes.Repeat(ping, 1000)...); sent < 100*bound; data = data[len(data)-1000*len(ping):] {
		n, err := near.Write(data)
		if sent += n; err != nil {
			break
		}
	}
	if sent > 10*bound {
		t.Errorf("the server has read %d bytes of pings", sent)
	}
	_ = near.Close()
	if err := <-ended; err == nil {
		t.Error("the connection ended without a reason")
	}
}

// A client whose next frame has always begun to arrive when the node has read one is not silent.
func TestConnOfABusyClientStays(t *testing.T) {
	l := limits()
	l.Ping = 500 * time.Millisecond // a busy machine can stop the client for a while; one is silent after three
	p := serve(t, l, newGate())
	go func() { _, _ = io.Copy(io.Discard, p.conn) }() // ends with the connection
	b, _ := frame.Append(nil, frame.KindCancel, 1, frame.Bytes(make([]byte, 2000)))
	part := b[:len(b)/2]
	for until := time.Now().Add(6 * l.Ping); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if _, err := p.conn.Write(part); err != nil {
			t.Fatalf("the node has closed the connection: %v", err)
		}
		part = append(bytes.Clone(b[len(b)/2:]), b[:len(b)/2]...)
	}
	select {
	case err := <-p.result:
		t.Errorf("the connection has ended: %v", err)
	default:
	}
}

// A client that sends a frame byte by byte must end it within the time of a silent client.
func TestConnEndsADrippingClient(t *testing.T) {
	l := limits()
	l.Ping = 50 * time.Millisecond
	p := serve(t, l, newGate())
	b, _ := frame.Append(nil, frame.KindCancel, 1, frame.Bytes(make([]byte, 2000)))
	for i := range b {
		if _, err := p.conn.Write(b[i : i+1]); err != nil {
			break
		}
		select {
		case err := <-p.result:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ended: %v", err)
			}
			return
		case <-time.After(l.Ping / 10):
		}
	}
	t.Error("the frame has arrived")
}

// Requests do not fit next to the body of a claim that waits for jobs. They are refused, the first
// one after a short wait, and the frames behind them are read: only the cancel among them ends the claim.
func TestConnReadsOnBehindAWaitingRequest(t *testing.T) {
	g := newGate()
	defer close(g.open)
	p := serve(t, limits(), g)
	p.send(frame.KindRequest, 1, &frame.Request{Target: "claim", Body: make([]byte, 100)})
	<-g.entered
	const more = 100 // 10 s, if each waited
	_ = p.conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	var frames []byte
	for id := range uint32(more + 1) {
		kind, m := frame.KindRequest, frame.Message(&frame.Request{Target: "large", Body: make([]byte, limits().BodyBytes)})
		if id == more {
			kind, m = frame.KindPing, nil
		}
		var err error
		if frames, err = frame.Append(frames, kind, 2+id, m); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = p.conn.Write(frames) }() // an error fails the reads below
	for id := range uint32(more) {
		if head, a := p.read(); head.ID != 2+id || a.Status == 200 {
			t.Fatalf("a request that does not fit is answered with %+v %d", head, a.Status)
		}
	}
	if head, _ := p.read(); head.Kind != frame.KindPong {
		t.Errorf("after it comes %+v, want the answer to the ping", head)
	}
	p.send(frame.KindCancel, 1, nil)
	if head, _ := p.read(); head.ID != 1 {
		t.Errorf("after the cancel comes %+v, want the end of the claim", head)
	}
}
