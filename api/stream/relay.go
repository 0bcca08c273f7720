package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"osqueue/client/api/v1/frame"
)

// Relay passes the frames of a client to the leader, and those of the leader to the client,
// without decoding their bodies. Create it with NewRelay and run it with Serve.
//
// A relay does not outlive the leadership: after Move or Drain it ends as soon as no request is
// in progress, and at the latest after two times relayGrace. Then the client repeats the
// requests that were in progress at the next leader, as after any broken connection.
type Relay struct {
	client, leader side
	moved          string // the leader that the client should connect to; "": none
	limits         Limits
	leave          chan frame.Moved // capacity 1: the relay has to end, and why
	idle           chan struct{}    // closed when the relay has to end and no request is in progress
	done           chan struct{}    // closed at the end

	mu      sync.Mutex
	pending map[uint32]int // requests in progress; 2 of an id that the client used again before its answer was noted
	leaving bool
	err     error // why the relay has ended
}

// relayGrace is the time in which requests in progress may be answered before a relay cancels
// them, and the time after that before it ends.
const relayGrace = 500 * time.Millisecond

// relayBuffer is the size of each of the four buffers of a relay.
const relayBuffer = 16 << 10

// side is one of the two connections of a relay.
type side struct {
	conn   io.ReadWriteCloser
	in     *bufio.Reader
	silent *time.Timer // ends the relay when no frame comes

	mu  sync.Mutex // of out: frames do not mix
	out *bufio.Writer
}

// NewRelay returns a relay between a client and the leader, to which an upgraded connection is
// open. in holds bytes that were read from the client already. The client learns after the
// first frame of the leader that it can connect to the address moved itself.
func NewRelay(client net.Conn, in io.Reader, leader io.ReadWriteCloser, moved string, limits Limits) *Relay {
	r := &Relay{
		moved: moved, limits: limits,
		leave:   make(chan frame.Moved, 1),
		idle:    make(chan struct{}),
		done:    make(chan struct{}),
		pending: make(map[uint32]int),
	}
	r.open(&r.client, deadlined{client, limits.WriteTimeout}, in, "client")
	r.open(&r.leader, leader, leader, "leader")
	return r
}

func (r *Relay) open(s *side, conn io.ReadWriteCloser, in io.Reader, name string) {
	s.conn, s.in, s.out = conn, bufio.NewReaderSize(in, relayBuffer), bufio.NewWriterSize(conn, relayBuffer)
	limit := silentPings * r.limits.Ping
	s.silent = time.AfterFunc(limit, func() { r.end(fmt.Errorf("the %s has sent nothing for %v", name, limit)) })
}

// deadlined is a connection whose every write has a time limit.
type deadlined struct {
	net.Conn
	limit time.Duration
}

// Write implements io.Writer.
func (d deadlined) Write(b []byte) (int, error) {
	_ = d.SetWriteDeadline(time.Now().Add(d.limit))
	return d.Conn.Write(b)
}

// Serve passes frames until one of the connections ends, closes both, and returns the reason.
// After Move and Drain the reason is nil.
func (r *Relay) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { r.end(context.Cause(ctx)) })
	var wg sync.WaitGroup
	wg.Go(r.depart)
	wg.Go(func() { r.end(r.pass(&r.leader, &r.client)) })
	r.end(r.pass(&r.client, &r.leader))
	stop()
	wg.Wait()
	if errors.Is(r.err, errDrained) {
		return nil
	}
	return r.err
}

// Move tells the client which node leads, and ends the relay: the node that it relays to does not
// lead any more. It does not wait.
func (r *Relay) Move(leader string) { r.part(frame.Moved{Leader: leader}) }

// Drain asks the client to send no more requests, and ends the relay. It does not wait.
func (r *Relay) Drain() { r.part(frame.Moved{Closing: true}) }

// Close ends the relay at once.
func (r *Relay) Close() { r.end(net.ErrClosed) }

func (r *Relay) part(why frame.Moved) {
	select {
	case r.leave <- why:
	default: // it ends already
	}
}

// end closes both connections because of err. The first reason counts.
func (r *Relay) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.err = err
	close(r.done)
	for _, s := range []*side{&r.client, &r.leader} {
		s.silent.Stop()
		_ = s.conn.Close()
	}
}

// pass passes the frames of one side to the other until a connection ends, and returns the
// reason.
func (r *Relay) pass(from, to *side) error {
	var buf [frame.HeadBytes]byte
	for {
		head, err := frame.ReadHead(from.in, &buf)
		if err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		if head.Length > discardMax {
			return fmt.Errorf("a frame has %d bytes; at most %d are allowed", head.Length, discardMax)
		}
		from.silent.Reset(silentPings * r.limits.Ping)
		r.asked(head)
		if err := to.copy(head, from.in); err != nil {
			return err
		}
		if head.Kind == frame.KindHello && from == &r.leader && r.moved != "" {
			if err := to.send(frame.KindMoved, 0, &frame.Moved{Leader: r.moved}); err != nil {
				return err
			}
		}
		r.passed(head)
	}
}

// copy writes a frame whose body is read from in. It flushes unless the next frame is in the
// buffer of in already.
func (s *side) copy(head frame.Head, in *bufio.Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(frame.AppendHead(s.out.AvailableBuffer(), head)); err != nil {
		return fmt.Errorf("forward a frame: %w", err)
	}
	if _, err := io.CopyN(s.out, in, int64(head.Length)); err != nil {
		return fmt.Errorf("forward a frame of %d bytes: %w", head.Length, err)
	}
	if another(in) {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("forward a frame: %w", err)
	}
	return nil
}

// another reports whether a whole frame is buffered.
func another(in *bufio.Reader) bool {
	if in.Buffered() < frame.HeadBytes {
		return false
	}
	b, err := in.Peek(frame.HeadBytes)
	return err == nil && in.Buffered() >= frame.HeadBytes+int(frame.ParseHead((*[frame.HeadBytes]byte)(b)).Length)
}

// send writes a frame of the relay's own.
func (s *side) send(k frame.Kind, id uint32, m frame.Message) error {
	b, err := frame.Append(nil, k, id, m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(b); err != nil {
		return err
	}
	return s.out.Flush()
}

func (s *side) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Flush()
}

// asked notes a request that is about to be passed on.
func (r *Relay) asked(head frame.Head) {
	if head.Kind != frame.KindRequest {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[head.ID]++
}

// passed notes an answer that was passed on.
func (r *Relay) passed(head frame.Head) {
	if head.Kind != frame.KindAnswer {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[head.ID]--; r.pending[head.ID] <= 0 {
		delete(r.pending, head.ID)
	}
	r.restLocked()
}

// restLocked closes idle if the relay has to end and no request is in progress.
func (r *Relay) restLocked() {
	if r.leaving && len(r.pending) == 0 {
		r.leaving = false
		close(r.idle)
	}
}

// depart ends the relay after Move or Drain.
func (r *Relay) depart() {
	var why frame.Moved
	select {
	case why = <-r.leave:
	case <-r.done:
		return
	}
	if err := r.client.send(frame.KindMoved, 0, &why); err != nil {
		r.end(err)
		return
	}
	r.mu.Lock()
	r.leaving = true
	r.restLocked()
	r.mu.Unlock()
	if !r.rests() {
		r.cancel()
		r.rests()
	}
	_ = r.client.flush() // the client may have gone
	r.end(errDrained)
}

// rests waits until no request is in progress, for relayGrace at most.
func (r *Relay) rests() bool {
	timer := time.NewTimer(relayGrace)
	defer timer.Stop()
	select {
	case <-r.idle:
		return true
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

// cancel cancels the requests in progress, such as claims that wait. The leader answers them
// nevertheless. If it does not read, cancel ends with the relay, which another timer ends.
func (r *Relay) cancel() {
	r.mu.Lock()
	ids := make([]uint32, 0, len(r.pending))
	for id := range r.pending {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	hung := time.AfterFunc(relayGrace, func() { r.end(errDrained) })
	defer hung.Stop()
	for _, id := range ids {
		if r.leader.send(frame.KindCancel, id, nil) != nil {
			return
		}
	}
}
