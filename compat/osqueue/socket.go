package osqueue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A socket is one WebSocket. The goroutine of its request reads messages, a second one
// writes answers, and each call has its own:
//
//	read ──▶ (slot of a call) ──▶ call ──▶ queue ──▶ write
//
// While all slots are taken the socket does not read. When the queue is full the client
// does not read its answers, and the socket is cut. All goroutines have ended when serve
// returns.
type socket struct {
	sockets *sockets
	limits  *Limits
	remote  string
	client  string   // to whose share it belongs
	tcp     net.Conn // below conn

	own     slots          // of the calls of this socket
	running sync.WaitGroup // the calls in flight
	wake    chan struct{}  // signals that the queue has an answer or has ended
	written chan struct{}  // closed when the writing goroutine has ended
	counted sync.Once      // counts the cut in the metrics

	mu       sync.Mutex
	conn     *websocket.Conn // nil before the handshake
	queue    [][]byte
	waiting  int  // bytes in the queue
	ended    bool // the queue accepts no answer any more
	retiring bool // the node shuts down: no call starts any more
	watch    *time.Timer
	watching sync.WaitGroup
}

func newSocket(all *sockets, remote string) *socket {
	limits := &all.cfg.Limits
	return &socket{
		sockets: all, limits: limits, remote: remote,
		own:     make(slots, limits.ConnectionCalls),
		wake:    make(chan struct{}, 1),
		written: make(chan struct{}),
	}
}

// kernelBytes is the size of the kernel's buffer for answers that a client has not read.
const kernelBytes = 256 << 10

// serve serves the socket until the client disconnects or the node shuts down.
func (s *socket) serve(ctx context.Context, conn *websocket.Conn, tcp net.Conn) {
	s.tcp = tcp
	conn.SetReadLimit(s.limits.MessageBytes)
	if b, ok := tcp.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(kernelBytes) // without it the kernel's default applies
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.sockets.ctx, cancel)
	defer stop()
	s.mu.Lock()
	s.conn = conn
	retiring := s.retiring
	s.mu.Unlock()
	if retiring {
		s.closeGracefully()
		return
	}
	go s.write()
	s.keepWatch(ctx)
	err := s.read(ctx)
	s.sockets.cfg.Logger.Debug("a WebSocket ends", "client", s.remote, "reason", err)
	s.running.Wait() // a received call is executed even if the client has gone
	s.end()
	<-s.written
	s.endWatch()
	_ = conn.CloseNow() // it may be closed already
}

// read starts a call for each message.
func (s *socket) read(ctx context.Context) error {
	for {
		release, err := s.own.take(ctx)
		if err != nil {
			return err
		}
		slots := &reservation{capacity: s.sockets.capacity, held: s.sockets.cfg.Inflight.Hold()}
		done := func() { slots.release(); release() }
		raw, err := s.next(ctx, slots)
		if err != nil {
			done()
			return err
		}
		m, err := parseMessage(raw)
		s.sockets.metrics.message(m.method, m.named)
		if err != nil {
			done()
			s.push(refusal(null, protocolError, err.Error()), nil)
			continue
		}
		free, err := s.admit(ctx, &m)
		if err != nil {
			done()
			return err
		}
		if !s.begin() { // continue reading: the client's close frame is still to come
			free()
			done()
			continue
		}
		go func() {
			defer s.running.Done()
			defer done()
			defer free()
			s.call(ctx, &m)
		}()
	}
}

// admit waits for a slot among the calls of all sockets. Lists have slots of their own,
// so that they do not delay short calls.
func (s *socket) admit(ctx context.Context, m *message) (free func(), err error) {
	if m.method == methodList {
		return func() {}, nil
	}
	return s.sockets.calls.take(ctx)
}

// begin counts a call. It returns false if the node shuts down.
func (s *socket) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retiring {
		return false
	}
	s.running.Add(1)
	return true
}

// next reads a message and takes slots as it grows.
func (s *socket) next(ctx context.Context, slots *reservation) ([]byte, error) {
	_, from, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	var in bytes.Buffer
	for _, limit := range []int64{smallBytes, mediumBytes - smallBytes, s.limits.MessageBytes} {
		n, err := s.receive(&in, io.LimitReader(counted{from, &slots.held}, limit))
		if err != nil || n < limit {
			return in.Bytes(), err
		}
		if err := slots.grow(ctx, in.Len()); err != nil {
			return nil, err
		}
	}
	return in.Bytes(), nil
}

// receive reads a message that has begun to arrive, within Limits.Read.
func (s *socket) receive(into *bytes.Buffer, from io.Reader) (int64, error) {
	late := time.AfterFunc(s.limits.Read, func() { s.cutFor(cutSilent) })
	defer late.Stop()
	return into.ReadFrom(from)
}

// call executes a message and queues the answer.
func (s *socket) call(ctx context.Context, m *message) {
	defer func() {
		if p := recover(); p != nil {
			s.sockets.cfg.Logger.Error("a call of a WebSocket panicked", "panic", p, "stack", string(debug.Stack()))
			s.cut()
		}
	}()
	c := caller{ctx: ctx, remote: s.remote}
	if m.method != methodList {
		s.push(s.sockets.native.answerTo(c, m), nil)
		return
	}
	instead := refusal(m.id, storageError, "the answers that wait for clients of this node have too many bytes; retry after a moment")
	if !s.sockets.fits(s.sockets.listed.Load()) {
		s.push(instead, nil)
		return
	}
	answer := s.sockets.native.answerTo(c, m)
	s.sockets.listed.Store(int64(len(answer)))
	s.push(answer, instead)
}

// push queues an answer. If the client has not read the earlier ones, it cuts the
// socket: the answers could not be delivered. If clients together have not read too many bytes, it queues
// instead, which is nil if the call must not be repeated.
func (s *socket) push(answer, instead []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	full := len(s.queue) >= s.limits.Queue || s.waiting > 0 && s.waiting+len(answer) > s.limits.QueueBytes
	if !full && !s.sockets.reserve(len(answer)) {
		answer = instead
		full = answer == nil || !s.sockets.reserve(len(answer))
	}
	if full {
		s.sockets.cfg.Logger.Debug("a WebSocket does not read its answers and is cut", "client", s.remote, "answers", len(s.queue))
		s.dropLocked()
		s.cutFor(cutUnread)
		return
	}
	s.queue = append(s.queue, answer)
	s.waiting += len(answer)
	s.wakeWriter()
}

// dropLocked ends the queue and drops its answers. The caller holds mu.
func (s *socket) dropLocked() {
	for _, answer := range s.queue {
		s.sockets.free(len(answer))
	}
	s.queue, s.waiting, s.ended = nil, 0, true
	s.wakeWriter()
}

// end ends the queue after its last answer.
func (s *socket) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wakeWriter()
}

// wakeWriter wakes the writing goroutine. It never blocks.
func (s *socket) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// write writes the answers until the queue has ended.
func (s *socket) write() {
	defer close(s.written)
	for range s.wake {
		for {
			answer, more := s.pop()
			if !more {
				return
			}
			if answer == nil {
				break
			}
			err := s.writeOne(answer)
			s.sockets.free(len(answer))
			if err != nil {
				s.mu.Lock()
				s.dropLocked()
				s.mu.Unlock()
				if errors.Is(err, context.DeadlineExceeded) {
					s.cutFor(cutUnread)
				}
				s.cut()
				return
			}
		}
	}
}

// pop removes the next answer, nil if the queue is empty. more is false when the queue is
// empty and has ended.
func (s *socket) pop() (answer []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, !s.ended
	}
	answer = s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.waiting -= len(answer)
	return answer, true
}

// slowest is the rate at which a client must read a long answer, in bytes per second.
const slowest = 256 << 10

func (s *socket) writeOne(answer []byte) error {
	patience := s.limits.Write + time.Duration(len(answer))*time.Second/slowest
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, answer)
}

// cut closes the connection without a close frame. Unlike websocket.Conn it does not
// wait for readers and writers; it makes them fail.
func (s *socket) cut() { _ = s.tcp.Close() } // it may be closed already

// cutFor cuts the socket and counts the reason, once.
func (s *socket) cutFor(reason string) {
	s.counted.Do(func() { s.sockets.metrics.cut.WithLabelValues(reason).Inc() })
	s.cut()
}

// keepWatch pings the client every Limits.Ping and cuts the socket if no answer comes
// within Limits.Pong.
func (s *socket) keepWatch(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.watching.Add(1)
	s.watch = time.AfterFunc(s.limits.Ping, func() {
		defer s.watching.Done()
		// While all slots are taken the socket does not read, and would miss the answer.
		if len(s.own) <= 1 {
			asked, cancel := context.WithTimeout(ctx, s.limits.Pong)
			defer cancel()
			if err := s.conn.Ping(asked); err != nil {
				if asked.Err() != nil && ctx.Err() == nil { // neither the client nor the node has closed
					s.cutFor(cutSilent)
				}
				s.cut()
				return
			}
		}
		s.keepWatch(ctx)
	})
}

// endWatch stops the pings and waits for the last one. end must have been called.
func (s *socket) endWatch() {
	s.mu.Lock()
	if s.watch != nil && s.watch.Stop() {
		s.watching.Done()
	}
	s.mu.Unlock()
	s.watching.Wait()
}

// closeTime is the time limit of the client's answer to a close frame.
const closeTime = 250 * time.Millisecond

// retire closes the socket because the node shuts down. Calls in flight may end and be
// answered within Limits.Grace.
func (s *socket) retire() {
	s.mu.Lock()
	s.retiring = true
	opened := s.conn != nil
	s.mu.Unlock()
	if !opened {
		return // serve closes it after the handshake
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
		s.end()
		<-s.written
	}()
	grace := time.NewTimer(s.limits.Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	s.closeGracefully()
}

// closeGracefully sends a close frame with the reason, and cuts the socket if the client
// does not answer it.
func (s *socket) closeGracefully() {
	late := time.AfterFunc(closeTime, s.cut)
	defer late.Stop()
	_ = s.conn.Close(websocket.StatusGoingAway, "this node is shutting down") // the client may have gone
}
