package stream

import (
	"context"
	"sync"
	"time"
)

// requestContext is the context of one request. It ends when the client cancels the request,
// or with the connection, which ends all contexts of its requests itself. So it needs no place in
// its parent, and most requests need one allocation for all of it.
type requestContext struct {
	parent context.Context // gives the values

	mu    sync.Mutex
	err   error
	done  chan struct{} // nil: not asked for yet
	after map[int]func()
	last  int
}

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any { return c.parent.Value(key) }

// AfterFunc calls f in a goroutine of its own when the context has ended, unless stop is called
// before. Package context uses it, so that a context that is derived from this one needs no
// goroutine to watch it.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = make(map[int]func())
	}
	c.last++
	id := c.last
	c.after[id] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.after[id]
		delete(c.after, id)
		return waiting
	}
}

// cancel ends the context.
func (c *requestContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	if c.done != nil {
		close(c.done)
	}
	for _, f := range c.after {
		go f()
	}
	c.after = nil
}
