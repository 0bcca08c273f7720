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
	"osqueue/internal/limit"
)

// Refusals that a Handler turns into answers.
var (
	// ErrTooLarge means that the body is longer than Limits.BodyBytes.
	ErrTooLarge = errors.New("the body of the request is larger than the connection allows")
	// ErrInFlight means that Limits.InFlight requests are in progress.
	ErrInFlight = errors.New("too many requests are in progress on this connection")
)

// Handler answers requests. It is safe for concurrent use.
type Handler interface {
	// Answer answers one request. ctx ends when the client cancels the request or the
	// connection breaks. The memory of the request is valid during the call.
	Answer(ctx context.Context, req *frame.Request, s Sender)
	// Refuse returns the answer to a request that the connection refused because of err,
	// which is ErrTooLarge, ErrInFlight or limit.ErrOver.
	Refuse(err error) *frame.Answer
}

// Sender sends the answer to one request.
type Sender interface {
	// Send sends the answer. It must be called at most once, during Handler.Answer, and does not
	// keep the answer.
	Send(a *frame.Answer)
}

// Limits bound one connection.
type Limits struct {
	InFlight     int           // requests in progress
	BodyBytes    int64         // bytes of one request body
	QueuedBytes  int           // bytes of bodies in progress, and of answers that are not sent yet
	WriteTimeout time.Duration // for the client to read an answer
	Ping         time.Duration // between two pings
}

// DefaultLimits returns the limits for a body of at most bodyBytes bytes.
func DefaultLimits(bodyBytes int64) Limits {
	return Limits{
		InFlight:     1024,
		BodyBytes:    bodyBytes,
		QueuedBytes:  4 << 20,
		WriteTimeout: 10 * time.Second,
		Ping:         15 * time.Second,
	}
}

const (
	// envelopeBytes is the space of a request frame for everything but its body.
	envelopeBytes = 8 << 10
	// discardMax is the longest request frame that is discarded and refused.
	discardMax = 256 << 20
	// controlMax is the longest body of any other frame from a client.
	controlMax = 4 << 10
	readBuffer = 16 << 10
	// firstBytes is what a request takes for its body before any of it has arrived.
	firstBytes = 4 << 10
	// requestBytes is what a request in progress takes in the budget besides its body: its goroutine
	// and what the handler keeps.
	requestBytes = 16 << 10
	// silentPings is the number of ping intervals without any byte after which a client counts
	// as gone.
	silentPings = 3
)

// Conn is the server's side of one connection. Create it with New and run it with Serve.
type Conn struct {
	conn   net.Conn
	in     *bufio.Reader
	node   string
	limits Limits
	budget *limit.Budget
	h      Handler

	mu       sync.Mutex
	out      output
	bodies   int              // bytes of the requests in progress
	stuck    bool             // a request has waited in vain for room since the last one ended
	pending  map[uint32]*task // requests in progress
	draining bool
	err      error // why the connection ends; nil: it is open

	room  *sync.Cond    // of mu: bodies or out have shrunk, or err is set
	wake  chan struct{} // capacity 1: out is not empty, or the connection ends
	tasks chan *task    // to idle handlers
	idle  int           // handlers that wait for a task
	wg    sync.WaitGroup
}

// New returns the server's side of conn. in holds bytes that were read from it already.
func New(conn net.Conn, in io.Reader, node string, limits Limits, budget *limit.Budget, h Handler) *Conn {
	c := &Conn{
		conn: conn, in: bufio.NewReaderSize(in, readBuffer), node: node, limits: limits, budget: budget, h: h,
		pending: make(map[uint32]*task),
		wake:    make(chan struct{}, 1),
		tasks:   make(chan *task),
	}
	c.room = sync.NewCond(&c.mu)
	c.out.hold = budget.Hold()
	c.push(frame.KindHello, 0, &frame.Hello{
		Version: frame.Version, Agent: c.node, InFlight: uint32(c.limits.InFlight),
		BodyBytes: uint32(min(c.limits.BodyBytes, discardMax)), PingMillis: uint32(c.limits.Ping.Milliseconds()),
	})
	return c
}

// Serve serves the connection until it ends, closes it, and returns the reason. After Drain the
// reason is nil.
func (c *Conn) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	c.wg.Go(c.write)
	err := c.read(ctx)
	c.end(err)
	stop()
	cancel()
	close(c.tasks)
	c.wg.Wait()
	c.out.hold.Release()
	if errors.Is(c.err, errDrained) {
		return nil
	}
	return c.err
}

var errDrained = errors.New("the connection is drained")

// Move tells the client which node leads: its host:port, or "" if none is known.
func (c *Conn) Move(leader string) { c.push(frame.KindMoved, 0, &frame.Moved{Leader: leader}) }

// Drain asks the client to send no more requests, and closes the connection after its last
// answer.
func (c *Conn) Drain() {
	c.push(frame.KindMoved, 0, &frame.Moved{Closing: true})
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.signal()
}

// Close ends the connection at once.
func (c *Conn) Close() { c.end(net.ErrClosed) }

// end closes the connection because of err. The first reason counts.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	for _, t := range c.pending {
		t.stop()
	}
	c.room.Broadcast()
	c.mu.Unlock()
	_ = c.conn.Close()
	c.signal()
}

// read reads frames until the connection ends, and returns the reason.
func (c *Conn) read(ctx context.Context) error {
	greeted := false
	var buf [frame.HeadBytes]byte
	var set time.Time // when the deadline was set
	for {
		// A client that answers no ping is gone. That of a busy client, whose next frame has always
		// begun to arrive, is not set for every frame.
		if now := time.Now(); c.in.Buffered() == 0 || now.Sub(set) > c.limits.Ping {
			set = now
			_ = c.conn.SetReadDeadline(now.Add(silentPings * c.limits.Ping))
		}
		head, err := frame.ReadHead(c.in, &buf)
		if err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		switch {
		case !greeted && head.Kind != frame.KindHello:
			return fmt.Errorf("the first frame has the kind %d; must be a hello (%d)", head.Kind, frame.KindHello)
		case head.Kind == frame.KindRequest:
			err = c.request(ctx, head)
		default:
			err = c.control(head)
		}
		if err != nil {
			return err
		}
		greeted = true
	}
}

// control handles a frame that is not a request. Frames of unknown kinds are skipped.
func (c *Conn) control(head frame.Head) error {
	if head.Length > controlMax {
		return fmt.Errorf("a frame of the kind %d has %d bytes; at most %d are allowed", head.Kind, head.Length, controlMax)
	}
	body := make([]byte, head.Length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("read a frame: %w", err)
	}
	switch head.Kind {
	case frame.KindHello:
		var hello frame.Hello
		if err := hello.Parse(body); err != nil {
			return err
		}
		if hello.Version == 0 {
			return fmt.Errorf("the client uses version %d of the protocol; must be at least 1", hello.Version)
		}
	case frame.KindPing:
		if err := c.awaitRoom(); err != nil {
			return err
		}
		c.push(frame.KindPong, head.ID, nil)
	case frame.KindCancel:
		c.mu.Lock()
		if t := c.pending[head.ID]; t != nil {
			t.stop()
		}
		c.mu.Unlock()
	default:
	}
	return nil
}

// request reads the body of a request and lets a handler answer it.
func (c *Conn) request(ctx context.Context, head frame.Head) error {
	if int64(head.Length) > c.limits.BodyBytes+envelopeBytes {
		if head.Length > discardMax {
			return fmt.Errorf("a request has %d bytes; at most %d are allowed", head.Length, c.limits.BodyBytes)
		}
		return c.discard(head.ID, int(head.Length), ErrTooLarge)
	}
	t := &task{conn: c, id: head.ID, hold: c.budget.Hold()}
	switch left, err := c.readBody(t, int(head.Length)); {
	case errors.Is(err, limit.ErrOver):
		t.free()
		return c.discard(head.ID, left, err)
	case err != nil:
		t.free()
		return err
	}
	t.ctx, t.stop = context.WithCancel(ctx)
	if err := c.admit(t); err != nil {
		t.stop()
		t.free()
		if !errors.Is(err, ErrInFlight) {
			return err
		}
		c.push(frame.KindAnswer, head.ID, c.h.Refuse(err))
		return nil
	}
	c.start(t)
	return nil
}

// readBody reads the body of t, which has n bytes. It takes memory from the budget as the bytes arrive: a
// client may announce bytes that it never sends. If the error is limit.ErrOver, left bytes of the
// body have not been read.
func (c *Conn) readBody(t *task, n int) (left int, err error) {
	for read := 0; ; {
		more := min(n-read, max(read, c.in.Buffered(), firstBytes))
		if err := t.hold.Take(more); err != nil {
			return n - read, err
		}
		t.grow(read, more)
		if _, err := io.ReadFull(c.in, (*t.body)[read:]); err != nil {
			return 0, fmt.Errorf("read the body of a request: %w", err)
		}
		if read += more; read == n {
			return 0, t.hold.Take(requestBytes)
		}
	}
}

// discard skips the bytes of a request that are left, and refuses it.
func (c *Conn) discard(id uint32, left int, why error) error {
	if _, err := io.CopyN(io.Discard, c.in, int64(left)); err != nil {
		return fmt.Errorf("read the body of a request: %w", err)
	}
	if err := c.awaitRoom(); err != nil {
		return err
	}
	c.push(frame.KindAnswer, id, c.h.Refuse(why))
	return nil
}

// awaitRoom waits while the client does not read its answers: frames that cost the client
// little must not grow the output without a bound.
func (c *Conn) awaitRoom() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.out.bytes) > c.limits.QueuedBytes {
		c.room.Wait()
	}
	return c.err
}

// roomWait bounds how long the reader waits until the bodies of other requests are answered. Some of
// them, as waiting claims, may end only with a frame that the reader has not read yet.
const roomWait = 100 * time.Millisecond

// admit registers a request. While the connection has too many bytes under way it waits, at most
// roomWait for other requests, and refuses the request then. Until another one ends, further requests
// are refused at once: the wait delays the frames behind it.
func (c *Conn) admit(t *task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(*t.body)
	full := func() bool { return c.bodies > 0 && c.bodies+n > c.limits.QueuedBytes }
	if full() && !c.stuck {
		over := time.Now().Add(roomWait)
		defer time.AfterFunc(roomWait, c.signalRoom).Stop()
		for c.err == nil && full() && time.Now().Before(over) {
			c.room.Wait()
		}
		c.stuck = full()
	}
	for c.err == nil && len(c.out.bytes) > c.limits.QueuedBytes {
		c.room.Wait()
	}
	switch {
	case c.err != nil:
		return c.err
	case full() || len(c.pending) >= c.limits.InFlight:
		return ErrInFlight
	case c.pending[t.id] != nil:
		return fmt.Errorf("two requests in progress have the id %d; use each id once", t.id)
	}
	c.pending[t.id] = t
	c.bodies += n
	return nil
}

func (c *Conn) signalRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.Broadcast()
}
