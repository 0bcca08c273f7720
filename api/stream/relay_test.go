package stream_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"osqueue/api/stream"
	"osqueue/client/api/v1/frame"
)

// relayed are the ends of a relay: the client's, and the leader's.
type relayed struct {
	t              *testing.T
	client, leader net.Conn
	relay          *stream.Relay
	result         chan error
}

func newRelayed(t *testing.T, limits stream.Limits) *relayed {
	t.Helper()
	r := &relayed{t: t, result: make(chan error, 1)}
	var near, far net.Conn
	r.client, near = connected(t)
	r.leader, far = connected(t)
	r.relay = stream.NewRelay(near, near, far, "n2:1", limits)
	go func() { r.result <- r.relay.Serve(context.Background()) }()
	t.Cleanup(func() { _, _ = r.client.Close(), r.leader.Close() })
	r.put(r.client, frame.KindHello, 0, &frame.Hello{Version: 1, Agent: "c"})
	r.wants(r.leader, frame.KindHello, 0)
	r.put(r.leader, frame.KindHello, 0, &frame.Hello{Version: 1, Agent: "n2"})
	r.wants(r.client, frame.KindHello, 0)
	if body := r.wants(r.client, frame.KindMoved, 0); !bytes.Contains(body, []byte("n2:1")) {
		t.Fatalf("the client is told %q, want the leader's address", body)
	}
	return r
}

// connected returns the two ends of a connection over the loopback.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	_ = near.SetDeadline(time.Now().Add(20 * time.Second))
	return near, far
}

func (r *relayed) put(to net.Conn, k frame.Kind, id uint32, m frame.Message) {
	r.t.Helper()
	b, err := frame.Append(nil, k, id, m)
	if err == nil {
		_, err = to.Write(b)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// wants reads the next frame and returns its body.
func (r *relayed) wants(from net.Conn, k frame.Kind, id uint32) []byte {
	r.t.Helper()
	var buf [frame.HeadBytes]byte
	head, err := frame.ReadHead(from, &buf)
	if err != nil {
		r.t.Fatalf("read a frame: %v", err)
	}
	if head.Kind != k || head.ID != id {
		r.t.Fatalf("got a frame of the kind %d and id %d, want %d and %d", head.Kind, head.ID, k, id)
	}
	body := make([]byte, head.Length)
	if _, err := io.ReadFull(from, body); err != nil {
		r.t.Fatal(err)
	}
	return body
}

// ended returns the result of the relay, whose connections must be closed.
func (r *relayed) ended() error {
	r.t.Helper()
	for _, c := range []net.Conn{r.client, r.leader} {
		if _, err := io.Copy(io.Discard, c); err != nil {
			r.t.Errorf("after the end of the relay: %v", err)
		}
	}
	return <-r.result
}

func TestRelayPassesFrames(t *testing.T) {
	r := newRelayed(t, stream.DefaultLimits(1<<20))
	large := frame.Bytes(bytes.Repeat([]byte("0123456789"), 50_000))
	for id := range uint32(3) {
		b, _ := frame.Append(nil, frame.KindRequest, id, large)
		go func() { _, _ = r.client.Write(b) }() // more than the buffers of the connections hold
		if got := r.wants(r.leader, frame.KindRequest, id); !bytes.Equal(got, large) {
			t.Fatalf("the leader got another request of %d bytes", len(got))
		}
	}
	// Frames that come together, also of an unknown kind, are passed on in their order.
	var b []byte
	for id := uint32(3); id > 0; id-- {
		b, _ = frame.Append(b, frame.KindAnswer, id-1, frame.Bytes("an answer"))
	}
	b, _ = frame.Append(b, 99, 7, frame.Bytes("later versions have more kinds"))
	for part := range slices.Chunk(b, 5) { // heads are cut in two
		if _, err := r.leader.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	for id := uint32(3); id > 0; id-- {
		r.wants(r.client, frame.KindAnswer, id-1)
	}
	r.wants(r.client, 99, 7)
	_ = r.leader.Close()
	if _, err := io.Copy(io.Discard, r.client); err != nil {
		t.Errorf("the client of a leader that has gone: %v", err)
	}
	if err := <-r.result; err == nil {
		t.Error("the relay does not say why it ended")
	}
}

func TestRelayEndsAfterTheLastAnswer(t *testing.T) {
	r := newRelayed(t, stream.DefaultLimits(1<<20))
	r.put(r.client, frame.KindRequest, 1, frame.Bytes("r"))
	r.wants(r.leader, frame.KindRequest, 1)
	r.relay.Move("n3:1")
	r.relay.Move("n4:1") // it ends already
	if body := r.wants(r.client, frame.KindMoved, 0); !bytes.Contains(body, []byte("n3:1")) {
		t.Errorf("the client is told %q", body)
	}
	r.put(r.leader, frame.KindAnswer, 1, frame.Bytes("a"))
	r.wants(r.client, frame.KindAnswer, 1)
	if err := r.ended(); err != nil {
		t.Errorf("the relay ended: %v", err)
	}
}

func TestRelayCancelsWhatWaits(t *testing.T) {
	r := newRelayed(t, stream.DefaultLimits(1<<20))
	r.put(r.client, frame.KindRequest, 5, frame.Bytes("a claim that waits"))
	r.wants(r.leader, frame.KindRequest, 5)
	r.relay.Drain()
	r.wants(r.client, frame.KindMoved, 0)
	r.wants(r.leader, frame.KindCancel, 5)
	r.put(r.leader, frame.KindAnswer, 5, frame.Bytes("nothing"))
	r.wants(r.client, frame.KindAnswer, 5)
	if err := r.ended(); err != nil {
		t.Errorf("the relay ended: %v", err)
	}
}

// A leader that is frozen answers nothing and reads nothing.
func TestRelayToAFrozenLeaderEnds(t *testing.T) {
	r := newRelayed(t, stream.DefaultLimits(1<<20))
	go func() {
		b, _ := frame.Append(nil, frame.KindRequest, 1, frame.Bytes(make([]byte, 1<<20)))
		for range 64 {
			if _, err := r.client.Write(b); err != nil {
				return
			}
		}
	}()
	r.wants(r.leader, frame.KindRequest, 1)
	r.relay.Move("n3:1")
	r.wants(r.client, frame.KindMoved, 0)
	if err := <-r.result; err != nil {
		t.Errorf("the relay ended: %v", err)
	}
}

func TestRelayEndsWhenASideIsSilent(t *testing.T) {
	limits := stream.DefaultLimits(1 << 20)
	limits.Ping = 50 * time.Millisecond
	r := newRelayed(t, limits)
	ping, _ := frame.Append(nil, frame.KindPing, 0, nil)
	tick := time.NewTicker(limits.Ping / 2)
	defer tick.Stop()
	for { // the leader pings; the client does not answer
		select {
		case err := <-r.result:
			if err == nil {
				t.Error("the relay does not say why it ended")
			}
			return
		case <-tick.C:
			_, _ = r.leader.Write(ping)
		}
	}
}

func TestRelayRefusesHugeFrames(t *testing.T) {
	r := newRelayed(t, stream.DefaultLimits(1<<20))
	if _, err := r.client.Write(frame.AppendHead(nil, frame.Head{Kind: frame.KindRequest, ID: 1, Length: 1 << 30})); err != nil {
		t.Fatal(err)
	}
	if err := <-r.result; err == nil {
		t.Error("a frame of 1 GiB was passed on")
	}
}
