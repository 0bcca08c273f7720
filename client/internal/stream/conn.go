package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/client/api/v1/frame"
	"osqueue/client/internal/sleep"
)

// Errors of Conn.Do.
var (
	// ErrClosed means that the connection was closed, or was about to be, before the request
	// was sent.
	ErrClosed = errors.New("the stream is closed")
	// ErrTooLarge means that the answer is longer than the caller allows.
	ErrTooLarge = errors.New("the answer is larger than allowed")
	// ErrSlow means that no answer came within Cut.After, and ErrCut that Cut.When was closed before.
	ErrSlow   = errors.New("no answer in time")
	ErrCut    = errors.New("the request was cut off")
	errSilent = errors.New("the server has sent nothing for too long")
)

const (
	readBuffer  = 16 << 10
	keptOutput  = 256 << 10
	queuedMax   = 1 << 20 // bytes that wait for the writer, beyond which callers wait
	defaultPing = 15 * time.Second
	silentPings = 3
)

// Conn is one connection. It is safe for concurrent use.
type Conn struct {
	rw    io.ReadWriteCloser
	hello frame.Hello
	moved func(frame.Moved)

	mu      sync.Mutex
	out     []byte
	batch   uint64 // number of the output that is being filled
	next    uint32 // id of the next request
	pending map[uint32]*pending
	room    chan struct{} // closed when the writer takes the output; nil: no caller waits
	retired bool          // takes no more requests
	err     error         // why the connection ended; nil: it is open

	heard atomic.Int64  // when the last frame arrived, in ns since 1970
	wake  chan struct{} // capacity 1
	quit  chan struct{} // closed at the end
	wg    sync.WaitGroup
}

// pending is a request that waits for its answer.
type pending struct {
	batch uint64 // the output that its frame is in
	limit int64  // of the body of the answer
	done  chan result
	timer *time.Timer // stopped while no call uses it
}

// Cut ends a request before its context does: after a time, and when a channel is closed. A
// context for that costs more than the rest of a request.
type Cut struct {
	After time.Duration
	When  <-chan struct{}
}

type result struct {
	answer frame.Answer
	err    error
	sent   bool
}

var waiters = sync.Pool{New: func() any {
	p := &pending{done: make(chan result, 1), timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}}

func newConn(rw io.ReadWriteCloser, in *bufio.Reader, hello frame.Hello, moved func(frame.Moved)) *Conn {
	c := &Conn{
		rw: rw, hello: hello, moved: moved,
		pending: make(map[uint32]*pending),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
	}
	c.heard.Store(time.Now().UnixNano())
	c.wg.Go(func() { c.end(c.read(in)) })
	c.wg.Go(c.write)
	c.wg.Go(c.watch)
	return c
}

// Close ends the connection and waits for its goroutines.
func (c *Conn) Close() {
	c.end(ErrClosed)
	c.wg.Wait()
}

// Retire lets the connection end once no request is in progress.
func (c *Conn) Retire() {
	c.mu.Lock()
	c.retired = true
	last := len(c.pending) == 0
	c.mu.Unlock()
	if last {
		c.end(ErrClosed)
	}
}

// Load returns the number of requests in progress. usable reports whether the connection takes
// another one.
func (c *Conn) Load() (n int, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = len(c.pending)
	full := c.hello.InFlight != 0 && n >= int(c.hello.InFlight)
	return n, c.err == nil && !c.retired && !full
}

// Ended reports whether the connection has ended or will end with its last request.
func (c *Conn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil || c.retired
}

// Takes reports whether a request with a body of n bytes fits into a frame.
func (c *Conn) Takes(n int) bool { return c.hello.BodyBytes == 0 || n <= int(c.hello.BodyBytes) }

// Do sends req and returns its answer, whose body has at most limit bytes. sent reports
// whether the server may have received the request.
func (c *Conn) Do(ctx context.Context, cut Cut, req *frame.Request, limit int64) (answer frame.Answer, sent bool, err error) {
	p := waiters.Get().(*pending)
	p.timer.Reset(cut.After)
	id, err := c.submit(ctx, cut, req, p, limit)
	if err != nil {
		p.timer.Stop()
		return frame.Answer{}, false, err
	}
	select {
	case r := <-p.done:
		p.timer.Stop()
		waiters.Put(p)
		return r.answer, r.sent, r.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-cut.When:
		err = ErrCut
	case <-p.timer.C:
		err = ErrSlow
	}
	p.timer.Stop()
	sent = c.cancel(id, p)
	select {
	case r := <-p.done: // it came at the same time
		return r.answer, r.sent, r.err
	default:
		return frame.Answer{}, sent, err
	}
}

// submit queues the frame of req.
func (c *Conn) submit(ctx context.Context, cut Cut, req *frame.Request, p *pending, limit int64) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.out) > queuedMax {
		if err := c.awaitRoom(ctx, cut, p); err != nil {
			return 0, err
		}
	}
	if c.err != nil || c.retired {
		return 0, ErrClosed
	}
	c.next++
	for c.pending[c.next] != nil || c.next == 0 {
		c.next++
	}
	id := c.next
	out, err := frame.Append(c.out, frame.KindRequest, id, req)
	if err != nil {
		return 0, err
	}
	c.out = out
	p.batch, p.limit = c.batch, limit
	c.pending[id] = p
	c.signal()
	return id, nil
}

// awaitRoom waits, without the lock, until the writer takes the output.
func (c *Conn) awaitRoom(ctx context.Context, cut Cut, p *pending) error {
	if c.room == nil {
		c.room = make(chan struct{})
	}
	room := c.room
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-room:
		return nil
	case <-c.quit:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-cut.When:
		return ErrCut
	case <-p.timer.C:
		return ErrSlow
	}
}

// cancel forgets a request and sends the server a cancel frame.
func (c *Conn) cancel(id uint32, p *pending) (sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent = p.batch < c.batch
	if c.err != nil || c.pending[id] != p {
		return sent
	}
	delete(c.pending, id)
	if out, err := frame.Append(c.out, frame.KindCancel, id, nil); err == nil {
		c.out = out
		c.signal()
	}
	return sent
}

func (c *Conn) signal() { sleep.Wake(c.wake) }

// end ends the connection because of err, and all its requests.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.quit)
	for id, p := range c.pending {
		delete(c.pending, id)
		p.done <- result{err: fmt.Errorf("the stream broke before the answer: %w", err), sent: p.batch < c.batch}
	}
	c.mu.Unlock()
	_ = c.rw.Close()
}

// write writes the queued frames until the connection ends.
func (c *Conn) write() {
	var spare []byte
	for {
		select {
		case <-c.wake:
			runtime.Gosched() // other callers add their requests
		case <-c.quit:
			return
		}
		c.mu.Lock()
		full := c.out
		c.out = spare[:0]
		c.batch++
		if c.room != nil {
			close(c.room)
			c.room = nil
		}
		c.mu.Unlock()
		if len(full) > 0 {
			if _, err := c.rw.Write(full); err != nil {
				c.end(fmt.Errorf("write: %w", err))
				return
			}
		}
		if spare = full; cap(spare) > keptOutput {
			spare = nil
		}
	}
}

// EndIfSilent ends the connection if no frame has arrived since t.
func (c *Conn) EndIfSilent(t time.Time) {
	if c.heard.Load() < t.UnixNano() {
		c.end(errSilent)
	}
}

// watch ends a connection from which nothing arrives.
func (c *Conn) watch() {
	patience := silentPings * pingOr(c.hello, defaultPing)
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.quit:
			return
		}
		c.EndIfSilent(time.Now().Add(-patience))
	}
}
