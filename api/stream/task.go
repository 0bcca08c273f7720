package stream

import (
	"context"
	"sync"

	"osqueue/client/api/v1/frame"
	"osqueue/internal/limit"
)

// task is one request in progress, and the Sender of its answer.
type task struct {
	conn *Conn
	id   uint32
	body *[]byte
	hold limit.Hold
	ctx  context.Context // ends when the client cancels the request, or with the connection
	stop context.CancelFunc
	req  frame.Request
}

// Send implements Sender. A client that has the answer may use the id and the place of the
// request again, so the request is not in progress from here on.
func (t *task) Send(a *frame.Answer) { t.conn.append(frame.KindAnswer, t.id, a, t) }

// forget removes t from the requests in progress. The caller holds the lock.
func (c *Conn) forget(t *task) {
	if t != nil && c.pending[t.id] == t {
		delete(c.pending, t.id)
	}
}

// keptBytes is the largest body buffer that is used again.
const keptBytes = 64 << 10

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// grow adds more bytes to the body, of which read bytes have been read.
func (t *task) grow(read, more int) {
	if t.body == nil {
		t.body = bodies.Get().(*[]byte)
	}
	if cap(*t.body) < read+more {
		*t.body = append(make([]byte, 0, read+more), (*t.body)[:read]...)
	}
	*t.body = (*t.body)[:read+more]
}

// free returns the memory of t.
func (t *task) free() {
	t.hold.Release()
	if t.body != nil && cap(*t.body) <= keptBytes {
		bodies.Put(t.body)
	}
}

// idleMax is the number of handlers of a connection that wait for a next request. A goroutine
// that is used again keeps its grown stack.
const idleMax = 64

// start gives t to an idle handler, or to a new one.
func (c *Conn) start(t *task) {
	select {
	case c.tasks <- t:
	default:
		c.wg.Go(func() { c.handle(t) })
	}
}

// handle answers t and the requests that follow, until enough other handlers are idle.
func (c *Conn) handle(t *task) {
	for {
		c.answer(t)
		c.mu.Lock()
		if c.idle >= idleMax || c.err != nil {
			c.mu.Unlock()
			return
		}
		c.idle++
		c.mu.Unlock()
		next, open := <-c.tasks
		c.mu.Lock()
		c.idle--
		c.mu.Unlock()
		if !open {
			return
		}
		t = next
	}
}

// answer answers one request.
func (c *Conn) answer(t *task) {
	if err := t.req.Parse(*t.body); err != nil {
		c.end(err)
	} else {
		c.h.Answer(t.ctx, &t.req, t)
	}
	t.stop()
	c.mu.Lock()
	c.bodies -= len(*t.body)
	c.stuck = false
	c.forget(t)
	c.room.Signal()
	last := c.draining && len(c.pending) == 0
	c.mu.Unlock()
	t.free()
	if last {
		c.signal()
	}
}
