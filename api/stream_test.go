package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/limit"
)

// newStreamClient returns the SDK before s, which waits for its stream.
func newStreamClient(t *testing.T, addr, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Servers: []string{addr}, RetryFor: -1, Protocol: client.ProtocolStream, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The SDK has the same conversation over a stream.
func TestTheClientUnderstandsTheStream(t *testing.T) {
	s := newServed(t)
	c := newStreamClient(t, s.addr, "")
	converse(t, c)
	if n := s.streamsOpen(); n != 1 {
		t.Errorf("%d streams are open, want 1", n)
	}
}

// Close ends the calls over a stream as well, and their errors say so.
func TestCloseEndsCallsOverTheStream(t *testing.T) {
	s := newServed(t)
	c := newStreamClient(t, s.addr, "")
	done := make(chan error, 1)
	go func() {
		_, err := c.Claim(t.Context(), client.ClaimOptions{Worker: "w", Types: []string{"none"}, Wait: time.Minute})
		done <- err
	}()
	eventually(t, "the claim arrives", s.asleep(1))
	c.Close()
	select {
	case err := <-done:
		if !errors.Is(err, client.ErrClosed) {
			t.Errorf("the claim ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the claim does not end")
	}
}

// A stream has the rights of the token that opened it, and a claim in it ends with the token.
func TestAStreamHasTheRightsOfItsToken(t *testing.T) {
	s := newServed(t, func(cfg *core.Config) { cfg.Security.Mode = core.SecurityOn })
	head := s.give(&fsmpb.Token{Role: uint32(fsm.RoleWorker), Types: []string{"mail"}})
	text := strings.TrimPrefix(head[1], "Bearer ")
	c := newStreamClient(t, s.addr, text)
	var refused *client.Error
	if _, err := c.Enqueue(t.Context(), client.NewJob{Type: "mail"}); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
		t.Errorf("a worker's token enqueued: %v", err)
	}
	if n := s.streamsOpen(); n != 1 {
		t.Errorf("%d streams are open, want 1", n)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Claim(t.Context(), client.ClaimOptions{Worker: "w", Types: []string{"mail"}, Wait: time.Minute})
		done <- err
	}()
	eventually(t, "the claim arrives", func() bool { return s.watched() == 2 }) // with the stream
	s.revoke(head)
	select {
	case err := <-done:
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			t.Errorf("the claim ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the claim still waits")
	}
}

// revoke revokes the token in a header.
func (g *rig) revoke(head []string) {
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: idOf(head)}}})
}

// watched returns the number of requests that wait with a token.
func (s *served) watched() (n int) {
	s.s.Access.Watched.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

// streamsOpen returns the number of open streams.
func (s *served) streamsOpen() int {
	s.s.frames.mu.Lock()
	defer s.s.frames.mu.Unlock()
	return len(s.s.frames.conns)
}

// rawStream is a stream whose frames a test writes.
type rawStream struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (s *served) openStream() *rawStream {
	s.t.Helper()
	conn := s.dial()
	_, _ = io.WriteString(conn, "GET /v1/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: osqueue-stream\r\n\r\n")
	r := &rawStream{t: s.t.(*testing.T), conn: conn, in: bufio.NewReader(conn)}
	res, err := http.ReadResponse(r.in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("upgrade: %+v, %v", res, err)
	}
	_ = res.Body.Close()
	var hello frame.Hello
	if _, body := r.read(frame.KindHello); hello.Parse(body) != nil || hello.Version != frame.Version || hello.InFlight == 0 {
		s.t.Fatalf("hello %+v", hello)
	}
	r.write(frame.KindHello, 0, &frame.Hello{Version: 1})
	return r
}

func (r *rawStream) write(k frame.Kind, id uint32, m frame.Message) {
	r.t.Helper()
	b, err := frame.Append(nil, k, id, m)
	if err == nil {
		_, err = r.conn.Write(b)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// read returns the next frame of the kind k.
func (r *rawStream) read(k frame.Kind) (frame.Head, []byte) {
	r.t.Helper()
	for {
		var buf [frame.HeadBytes]byte
		head, err := frame.ReadHead(r.in, &buf)
		if err != nil {
			r.t.Fatal(err)
		}
		body := make([]byte, head.Length)
		if _, err := io.ReadFull(r.in, body); err != nil {
			r.t.Fatal(err)
		}
		if head.Kind == k {
			return head, body
		}
	}
}

func (r *rawStream) answer() (uint32, frame.Answer) {
	r.t.Helper()
	head, body := r.read(frame.KindAnswer)
	var a frame.Answer
	if err := a.Parse(body); err != nil {
		r.t.Fatal(err)
	}
	return head.ID, a
}

func (r *rawStream) moved() (m frame.Moved) {
	r.t.Helper()
	if _, body := r.read(frame.KindMoved); m.Parse(body) != nil {
		r.t.Fatalf("moved: %x", body)
	}
	return m
}

func (r *rawStream) request(id uint32, target, body string) {
	r.t.Helper()
	r.write(frame.KindRequest, id, &frame.Request{Target: target, Body: []byte(body)})
}

// Calls over a stream give back the memory that they took, whatever becomes of them.
func TestStreamCallsHoldNoMemory(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.Inflight = limit.NewBudget(16 << 20) })
	r := s.openStream()
	for i, row := range []struct{ target, body string }{
		{v1.PathJobs, `{"type":"t"}`},
		{v1.PathJobs, `{"type":`},
		{v1.PathClaim, `{"workerId":"w","types":["t"]}`},
		{"/v1/nothing", `{}`},
		{v1.PathJobs + "/%zz/complete", `{}`},
		{v1.PathJobs + "/{}/complete", `{"workerId":"w"}`},
		{v1.PathJobs, `{"type":"t"}`},
	} {
		r.request(uint32(i), row.target, row.body)
		r.answer()
	}
	eventually(t, "all memory to be given back", func() bool { return s.s.Config.Inflight.Used() == 0 })
}

// A request that waits does not delay those behind it, and a cancelled one leases nothing.
func TestStreamRequestsAreIndependent(t *testing.T) {
	s := newServed(t)
	r := s.openStream()
	r.request(1, v1.PathClaim, `{"workerId":"w","types":["slow"],"waitMs":20000}`)
	r.request(2, v1.PathJobs, `{"id":"a","type":"t"}`)
	if id, a := r.answer(); id != 2 || a.Status != 200 || a.LSN == "" {
		t.Fatalf("answered %d: %+v", id, a)
	}
	r.write(frame.KindCancel, 1, nil)
	if id, a := r.answer(); id != 1 || a.Status != 499 {
		t.Fatalf("answered %d: %+v", id, a)
	}
	r.request(1, v1.PathJobs, `{"type":"slow","id":"b"}`)
	if id, a := r.answer(); id != 1 || a.Status != 200 {
		t.Fatalf("answered %d: %+v", id, a)
	}
	if j := s.node.Job("b"); j.Execution().Worker != "" {
		t.Errorf("leased to %q", j.Execution().Worker)
	}
	r.write(frame.KindPing, 7, nil)
	if head, _ := r.read(frame.KindPong); head.ID != 7 {
		t.Errorf("pong %+v", head)
	}
}

func TestStreamRefusals(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.MaxBody = 100_000 })
	r := s.openStream()
	for i, one := range []struct {
		target, body string
		status       uint32
	}{
		{v1.PathStatus, "", 404}, // a read
		{"/nope", "{}", 404},
		{frame.Path, "{}", 404},
		{":", "{}", 400},
		{v1.PathJobs, "{", 400},
		{v1.PathJobs, string(make([]byte, 99_999)), 400},
		{v1.PathJobs, string(make([]byte, 100_001)), 413},
		{v1.PathJobs, string(make([]byte, 150_000)), 413},
		{"/v1/jobs/x/complete", `{"token":1}`, 404},
		{v1.PathJobs, "{}", 200},
	} {
		r.request(uint32(i), one.target, one.body)
		if id, a := r.answer(); id != uint32(i) || a.Status != one.status {
			t.Errorf("%s: answered %d %+v, want %d", one.target, id, a, one.status)
		}
	}
}

// A node that shuts down answers what is in progress, and tells its clients.
func TestStreamShutdown(t *testing.T) {
	s := newServed(t)
	r := s.openStream()
	r.request(1, v1.PathClaim, `{"workerId":"w","waitMs":20000}`)
	eventually(t, "the claim waits", func() bool { return s.inFlight() == 2 }) // the stream is one
	done := make(chan error, 1)
	go func() { done <- s.s.Shutdown(t.Context()) }()
	if m := r.moved(); !m.Closing {
		t.Fatalf("%+v", m)
	}
	if id, a := r.answer(); id != 1 || a.Status != 503 {
		t.Fatalf("answered %d: %+v", id, a)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A client learns at once that another node leads.
func TestStreamReportsTheLeader(t *testing.T) {
	s := newServed(t)
	r := s.openStream()
	r.request(1, v1.PathJobs, `{}`)
	r.answer()
	s.node.set(func(f *fakeNode) { f.leader = "10.0.0.9:1" })
	if m := r.moved(); m.Closing || m.Leader != "10.0.0.9:1" {
		t.Fatalf("%+v", m)
	}
}

// A client that sends nothing, and one that sends no frames, are disconnected.
func TestStreamEndsSilentAndWrongClients(t *testing.T) {
	s := newServed(t, func(c *core.Config) {
		c.Timeouts = core.DefaultTimeouts()
		c.Timeouts.KeepAlive = 20 * time.Millisecond
	})
	silent := s.openStream()
	wrong := s.openStream()
	wrong.write(frame.KindRequest, 1, frame.Bytes{0xff})
	for _, r := range []*rawStream{silent, wrong} {
		if _, err := io.Copy(io.Discard, r.in); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection is open")
		}
	}
}

func TestStreamAnswersManyAtOnce(t *testing.T) {
	s := newServed(t)
	c := newStreamClient(t, s.addr, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const callers, each = 64, 20
	errs := make(chan error, callers)
	for i := range callers {
		go func() {
			for n := range each {
				if _, err := c.Enqueue(ctx, client.NewJob{ID: fmt.Sprintf("%d-%d", i, n), Type: "t"}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if n := s.node.TypeStats("t").Counts.Of(fsm.Unclaimed); n != callers*each {
		t.Errorf("%d jobs, want %d", n, callers*each)
	}
	if n := s.streamsOpen(); n < 1 || n > 4 {
		t.Errorf("%d streams are open, want 1 to 4", n)
	}
}

// A follower forwards the requests of a stream one by one, and tells the client where the leader is.
func TestAFollowerForwardsTheRequestsOfAStream(t *testing.T) {
	p := newPair(t)
	follower := newServed(t)
	follower.node.set(func(f *fakeNode) { f.leader, f.lead = p.address, false })
	r := follower.openStream()
	r.moved()
	for id := range uint32(10) {
		r.request(id, v1.PathJobs, `{}`)
		if got, a := r.answer(); got != id || a.Status != http.StatusOK || a.LSN == "" {
			t.Fatalf("request %d got %+v, %s", got, a, a.Body)
		}
	}
	if n := p.leader.node.written(); n != 10 || follower.node.written() != 0 {
		t.Errorf("the leader has %d writes, want 10", n)
	}
	for range 10 {
		if h := <-p.seen; h.Get(v1.HeaderForwarded) != "n1" || h.Get("Upgrade") != "" {
			t.Errorf("the leader got %v", h)
		}
	}
	follower.node.set(func(f *fakeNode) { f.leader = "n9:1" })
	if m := r.moved(); m.Leader != "n9:1" {
		t.Errorf("the client is told %+v", m)
	}
}

// A follower forwards a body in protobuf as it is, and waits for as long as the claim in it does.
func TestAFollowerForwardsProtobuf(t *testing.T) {
	p := newPair(t)
	follower := newServed(t)
	follower.node.set(func(f *fakeNode) { f.leader, f.lead = p.address, false })
	r := follower.openStream()
	ask := func(target string, m v1.Message) frame.Answer {
		body, err := m.AppendProto(nil)
		if err != nil {
			t.Fatal(err)
		}
		r.write(frame.KindRequest, 1, &frame.Request{Target: target, Body: body, Proto: true})
		_, a := r.answer()
		if h := <-p.seen; h.Get("Content-Type") != v1.MediaTypeProtobuf {
			t.Errorf("the leader got %v", h)
		}
		return a
	}
	var out v1.Enqueued
	a := ask(v1.PathJobs, &v1.NewJob{ID: "a", Payload: []byte(` {"n" : 1}`)})
	if err := out.ParseProto(a.Body, 1); err != nil || !a.Proto || out.JobID != "a" || out.LSN != a.LSN || a.LSN == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	var got v1.Claimed
	a = ask(v1.PathClaim, &v1.Claim{WorkerID: new("w"), Max: new(int32(1)), WaitMs: 60_000})
	if err := got.ParseProto(a.Body, 9); err != nil || len(got.Jobs) != 1 || string(got.Jobs[0].Payload) != ` {"n" : 1}` {
		t.Fatalf("%+v, %v", a, err)
	}
	a = ask(v1.PathJobs, &v1.NewJob{ID: "b", LeaseMs: -1})
	if a.Proto || a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), "leaseMs") {
		t.Errorf("%+v %s", a, a.Body)
	}
}

// Unknown fields are skipped, and the limits of JSON hold.
func TestProtobufInAStream(t *testing.T) {
	s := newServed(t)
	r := s.openStream()
	for i, c := range []struct {
		target string
		body   string
		status uint32
		want   string
	}{
		{v1.PathJobs, "\x0a\x01a\xf8\x3f\x01", 200, ""},
		{v1.PathJobs, "", 200, ""},
		{v1.PathJobs, "{}", 400, "is not valid protobuf"},
		{v1.PathJobs, "\x0a\x01\xff", 400, "id is not UTF-8"},
		{v1.PathJobs, "\x0a\x02a ", 400, "id contains"},
		{v1.PathJobs, "\x1a\x01{", 400, "payload is not valid JSON"},
		{v1.PathJobs, "\x1a\xc9\x03" + strings.Repeat("[", 228) + "1" + strings.Repeat("]", 228), 400, "payload nests"},
		{v1.PathJobsBatch, strings.Repeat("\x0a\x00", 1001), 413, "jobs has 1001 items"},
		{v1.PathCancel, "\x0a\x01a", 415, "application/json"},
		{v1.PathWorkers, "\x0a\x01a", 415, "application/json"},
	} {
		r.write(frame.KindRequest, uint32(i), &frame.Request{Target: c.target, Body: []byte(c.body), Proto: true, Prefer: v1.PreferStrict})
		if _, a := r.answer(); a.Status != c.status || c.want != "" && !strings.Contains(string(a.Body), c.want) {
			t.Errorf("%s %q: answered %d %s, want %d %s", c.target, c.body[:min(len(c.body), 20)], a.Status, a.Body, c.status, c.want)
		}
	}
}

// Claims that wait at the leader have places at the follower too: many come over one stream.
func TestWaitingClaimsOverAFollowerAreBounded(t *testing.T) {
	p := newPair(t)
	follower := newServed(t, func(cfg *core.Config) { cfg.Limits.Waits = 4 })
	follower.node.set(func(f *fakeNode) { f.leader, f.lead = p.address, false })
	r := follower.openStream()
	for id := range uint32(3) { // one client gets half of the places
		r.request(id, v1.PathClaim, `{"workerId":"w","waitMs":60000}`)
	}
	if _, a := r.answer(); a.Status != http.StatusServiceUnavailable && a.Status != http.StatusTooManyRequests {
		t.Errorf("one claim too many got %+v, %s", a, a.Body)
	}
}

// A proxy would take bytes behind the request for its body, and the node would take them for frames.
func TestARequestForAStreamHasNoBodyAndNoOrigin(t *testing.T) {
	s := newServed(t)
	for header, body := range map[string]string{
		"Content-Length: 4": "abcd", "Transfer-Encoding: chunked": "0\r\n\r\n", "Origin: https://evil.example": "", "Origin: null": "",
	} {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = fmt.Fprintf(conn, "GET /v1/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: osqueue-stream\r\n%s\r\n\r\n%s", header, body)
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q, %v", header, line, err)
		}
		_ = conn.Close()
	}
}
