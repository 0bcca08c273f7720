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

// socket is one WebSocket. The goroutine of its request reads messages, another one
// writes answers, and each call has its own:
//
//	read ──▶ (a place among the calls) ──▶ call ──▶ queue ──▶ write
//
// When all places are taken nothing is read. When the queue is full the client
// does not read, and the socket is cut. All goroutines have ended when serve
// returns.
type socket struct {
	sockets *sockets
	limits  *Limits
	remote  string
	tcp     net.Conn // below conn

	own     places         // calls of this socket
	running sync.WaitGroup // calls
	wake    chan struct{}  // there is something in the queue, or it has ended
	written chan struct{}  // closed when nothing is written any more
	counted sync.Once      // that it was cut

	mu       sync.Mutex
	conn     *websocket.Conn // nil: it is not open yet
	queue    [][]byte
	waiting  int  // bytes of the queue
	ended    bool // nothing is queued any more
	retiring bool // the node is going: nothing new is begun
	watch    *time.Timer
	watching sync.WaitGroup
}

func newSocket(all *sockets, remote string) *socket {
	limits := &all.cfg.Limits
	return &socket{
		sockets: all, limits: limits, remote: remote,
		own:     make(places, limits.ConnectionCalls),
		wake:    make(chan struct{}, 1),
		written: make(chan struct{}),
	}
}

// kernelBytes is what the system may keep of answers that a client does not read.
const kernelBytes = 256 << 10

// serve serves the socket until the client goes, or the node.
func (s *socket) serve(ctx context.Context, conn *websocket.Conn, tcp net.Conn) {
	s.tcp = tcp
	conn.SetReadLimit(s.limits.MessageBytes)
	if b, ok := tcp.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(kernelBytes) // it is the system's business otherwise
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
		s.sayGoodbye()
		return
	}
	go s.write()
	s.keepWatch(ctx)
	err := s.read(ctx)
	s.sockets.cfg.Logger.Debug("a WebSocket ends", "client", s.remote, "reason", err)
	s.running.Wait() // what was received is carried out, whether the client stays or not
	s.end()
	<-s.written
	s.endWatch()
	_ = conn.CloseNow() // it may be closed already
}

// read begins a call for each message.
func (s *socket) read(ctx context.Context) error {
	for {
		release, err := s.own.take(ctx)
		if err != nil {
			return err
		}
		sits := &seat{room: s.sockets.room}
		done := func() { sits.rise(); release() }
		raw, err := s.next(ctx, sits)
		if err != nil {
			done()
			return err
		}
		m, err := parseMessage(raw)
		s.sockets.metrics.message(m.method, m.named)
		if err != nil {
			done()
			s.push(refusal(null, protocolError, err.Error()))
			continue
		}
		free, err := s.admit(ctx, &m)
		if err != nil {
			done()
			return err
		}
		if !s.begin() { // what is left to read is the client's goodbye
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

// admit waits for a place among the calls of all. Lists wait for places of their own,
// and take none from calls that are quick.
func (s *socket) admit(ctx context.Context, m *message) (free func(), err error) {
	if m.method == methodList {
		return func() {}, nil
	}
	return s.sockets.calls.take(ctx)
}

// begin counts a call, unless the node is going.
func (s *socket) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retiring {
		return false
	}
	s.running.Add(1)
	return true
}

// next reads a message. It needs room as it gets longer.
func (s *socket) next(ctx context.Context, sits *seat) ([]byte, error) {
	_, from, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	var in bytes.Buffer
	for _, limit := range []int64{smallBytes, mediumBytes - smallBytes, s.limits.MessageBytes} {
		n, err := s.receive(&in, io.LimitReader(from, limit))
		if err != nil || n < limit {
			return in.Bytes(), err
		}
		if err := sits.grow(ctx, in.Len()); err != nil {
			return nil, err
		}
	}
	return in.Bytes(), nil
}

// receive reads what has begun to arrive.
func (s *socket) receive(into *bytes.Buffer, from io.Reader) (int64, error) {
	late := time.AfterFunc(s.limits.Read, func() { s.cutFor(cutSilent) })
	defer late.Stop()
	return into.ReadFrom(from)
}

// call does what a message asks for.
func (s *socket) call(ctx context.Context, m *message) {
	defer func() {
		if p := recover(); p != nil {
			s.sockets.cfg.Logger.Error("a call of a WebSocket panicked", "panic", p, "stack", string(debug.Stack()))
			s.cut()
		}
	}()
	s.push(s.sockets.native.answerTo(caller{ctx: ctx, remote: s.remote}, m))
}

// push queues an answer. If the client has not read those before it is cut off:
// nobody can tell it any more what became of its calls.
func (s *socket) push(answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	full := len(s.queue) >= s.limits.Queue || s.waiting > 0 && s.waiting+len(answer) > s.limits.QueueBytes
	if full || !s.sockets.reserve(len(answer)) {
		s.sockets.cfg.Logger.Debug("a WebSocket does not read its answers and is cut", "client", s.remote, "answers", len(s.queue))
		s.dropLocked()
		s.cutFor(cutUnread)
		return
	}
	s.queue = append(s.queue, answer)
	s.waiting += len(answer)
	s.rouse()
}

// dropLocked ends the queue and forgets what is in it.
func (s *socket) dropLocked() {
	for _, answer := range s.queue {
		s.sockets.free(len(answer))
	}
	s.queue, s.waiting, s.ended = nil, 0, true
	s.rouse()
}

// end ends the queue: what is in it is written.
func (s *socket) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.rouse()
}

func (s *socket) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
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

// pop takes the next answer; nil: there is none now. Without more there will be
// none.
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

// slowest is how fast a client must be able to read a long answer, in bytes a
// second.
const slowest = 256 << 10

func (s *socket) writeOne(answer []byte) error {
	patience := s.limits.Write + time.Duration(len(answer))*time.Second/slowest
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, answer)
}

// cut closes the connection without a word. It does not wait for those who read
// and write, as a websocket.Conn does: it makes them end.
func (s *socket) cut() { _ = s.tcp.Close() } // it may be closed already

// cutFor is cut, and counts why, once.
func (s *socket) cutFor(reason string) {
	s.counted.Do(func() { s.sockets.metrics.cut.WithLabelValues(reason).Inc() })
	s.cut()
}

// keepWatch asks a client that says nothing for a sign of life, every now and then.
func (s *socket) keepWatch(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.watching.Add(1)
	s.watch = time.AfterFunc(s.limits.Ping, func() {
		defer s.watching.Done()
		// Without a reader, as long as all places are taken, no answer would be heard.
		if len(s.own) <= 1 {
			asked, cancel := context.WithTimeout(ctx, s.limits.Pong)
			defer cancel()
			if err := s.conn.Ping(asked); err != nil {
				if asked.Err() != nil && ctx.Err() == nil { // the client has not gone, nor the node
					s.cutFor(cutSilent)
				}
				s.cut()
				return
			}
		}
		s.keepWatch(ctx)
	})
}

// endWatch is for after end.
func (s *socket) endWatch() {
	s.mu.Lock()
	if s.watch != nil && s.watch.Stop() {
		s.watching.Done()
	}
	s.mu.Unlock()
	s.watching.Wait()
}

// goodbyeTime is how long the client may take to answer a goodbye.
const goodbyeTime = 250 * time.Millisecond

// retire ends the socket because the node goes. Calls under way may end and be
// answered in the time of grace.
func (s *socket) retire() {
	s.mu.Lock()
	s.retiring = true
	opened := s.conn != nil
	s.mu.Unlock()
	if !opened {
		return // serve will see it
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
	s.sayGoodbye()
}

// sayGoodbye tells the client why the connection ends.
func (s *socket) sayGoodbye() {
	impatience := time.AfterFunc(goodbyeTime, s.cut)
	defer impatience.Stop()
	_ = s.conn.Close(websocket.StatusGoingAway, "this node is shutting down") // the client may have gone
}
