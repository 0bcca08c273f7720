package osqueue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// A socket is one WebSocket. The goroutine of its request reads messages, and each call has
// one that writes its answer:
//
//	read ──▶ (slot of a call) ──▶ call ──▶ write
//
// While all slots are taken the socket does not read. When the client does not read its
// answers, the socket is cut. All goroutines have ended when serve
// returns.
type socket struct {
	sockets *sockets
	limits  *Limits
	remote  string
	client  string   // to whose share it belongs
	tcp     net.Conn // below conn

	own     slots          // of the calls of this socket, until their answers are written
	writing sync.Mutex     // held while an answer is written
	unread  atomic.Int64   // bytes of answers that are not written yet
	running sync.WaitGroup // the calls in flight, with their answers
	counted sync.Once      // counts the cut in the metrics

	mu       sync.Mutex
	conn     *websocket.Conn // nil before the handshake
	ended    bool            // no ping begins any more
	retiring bool            // the node shuts down: no call starts any more
	watch    *time.Timer
	watching sync.WaitGroup
}

func newSocket(all *sockets, remote string) *socket {
	limits := &all.cfg.Limits
	return &socket{sockets: all, limits: limits, remote: remote, own: make(slots, limits.ConnectionCalls)}
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
	s.keepWatch(ctx)
	err := s.read(ctx)
	s.sockets.cfg.Logger.Debug("a WebSocket ends", "client", s.remote, "reason", err)
	s.running.Wait() // a received call is executed even if the client has gone
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
		raw, err := s.next(ctx, slots)
		if err != nil {
			slots.release()
			return err
		}
		m, err := parseMessage(raw)
		s.sockets.metrics.message(m.method, m.named)
		if err != nil {
			slots.release()
			s.write(refusal(null, protocolError, err.Error()), nil)
			release()
			continue
		}
		free, err := s.admit(ctx, &m)
		if err != nil {
			slots.release()
			return err
		}
		if !s.begin() { // continue reading: the client's close frame is still to come
			free()
			slots.release()
			release()
			continue
		}
		go func() {
			defer s.running.Done()
			defer release()
			answer, instead := s.call(ctx, &m, func() { free(); slots.release() })
			s.write(answer, instead)
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

// call executes a message, and calls done before its answer is written, which may take long. instead is the answer if
// the clients together have not read too many bytes; nil if the call must not be repeated.
func (s *socket) call(ctx context.Context, m *message, done func()) (answer, instead []byte) {
	defer done()
	defer func() {
		if p := recover(); p != nil {
			s.sockets.cfg.Logger.Error("a call of a WebSocket panicked", "panic", p, "stack", string(debug.Stack()))
			s.cut()
		}
	}()
	c := caller{ctx: ctx, remote: s.remote}
	if m.method != methodList {
		return s.sockets.native.answerTo(c, m), nil
	}
	instead = refusal(m.id, storageError, "the answers that wait for clients of this node have too many bytes; retry after a moment")
	if !s.sockets.fits(s.sockets.listed.Load()) {
		return instead, nil
	}
	answer = s.sockets.native.answerTo(c, m)
	s.sockets.listed.Store(int64(len(answer)))
	return answer, instead
}

// write writes an answer, or instead if clients together have not read too many bytes. If the client has not read the
// earlier ones, it cuts the socket: the answer could not be delivered.
func (s *socket) write(answer, instead []byte) {
	unread := s.unread.Add(int64(len(answer)))
	defer s.unread.Add(-int64(len(answer)))
	full := unread > int64(max(len(answer), s.limits.QueueBytes))
	if !full && !s.sockets.reserve(len(answer)) {
		answer = instead
		full = answer == nil || !s.sockets.reserve(len(answer))
	}
	if full {
		s.cutFor(cutUnread)
		return
	}
	defer s.sockets.free(len(answer))
	s.writing.Lock() // the time of an answer begins when the client has read those before it
	defer s.writing.Unlock()
	err := s.writeOne(answer)
	if errors.Is(err, context.DeadlineExceeded) {
		s.cutFor(cutUnread)
	}
	if err != nil {
		s.cut()
	}
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

// endWatch stops the pings and waits for the last one.
func (s *socket) endWatch() {
	s.mu.Lock()
	s.ended = true
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
