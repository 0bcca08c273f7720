package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection through a port.
type conn struct {
	dialer   *net.TCPConn
	up, down *pipe // from the dialer, and to it
	halves   atomic.Int32

	sent *record // what the dialer has sent; nil: it is not recorded

	ctx context.Context // ends with the connection
	end context.CancelFunc

	mu     sync.Mutex
	target *net.TCPConn // nil until it is made
	ended  bool
}

// pipe is one direction of a connection.
type pipe struct {
	lane  *lane
	queue *queue
	last  chan struct{} // closed when the sender has ended
}

func newConn(dialer *net.TCPConn, up, down *lane) *conn {
	c := &conn{dialer: dialer, up: newPipe(up), down: newPipe(down)}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

func newPipe(l *lane) *pipe {
	return &pipe{lane: l, queue: newQueue(), last: make(chan struct{})}
}

// dialLimit bounds the making of a connection to a target on this machine.
const dialLimit = 5 * time.Second

// run carries the connection until it ends.
func (c *conn) run(target string) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.read(c.up, c.dialer) })
	t, ok := c.connect(target)
	if !ok {
		c.abort()
		return
	}
	wg.Go(func() { c.read(c.down, t) })
	wg.Go(func() { c.write(c.up, t, c.down) })
	wg.Go(func() { c.write(c.down, c.dialer, c.up) })
	<-c.ctx.Done()
}

// connect makes the connection to the target, when both directions let a handshake
// pass.
func (c *conn) connect(target string) (*net.TCPConn, bool) {
	if !c.shakeHands() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(c.ctx, dialLimit)
	defer cancel()
	var d net.Dialer
	t, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		c.up.lane.absent.Add(1)
		return nil, false
	}
	tcp := t.(*net.TCPConn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = tcp.Close()
		return nil, false
	}
	c.target = tcp
	return tcp, true
}

// shakeHands waits until neither direction is cut. If the dialer goes meanwhile,
// there has never been a connection.
func (c *conn) shakeHands() bool {
	held := make(map[*lane]bool)
	for {
		cut := c.up.lane
		e := cut.effect.Load()
		if !e.Cut {
			cut = c.down.lane
			e = cut.effect.Load()
		}
		if !e.Cut {
			return true
		}
		if !held[cut] {
			held[cut] = true
			cut.held.Add(1)
		}
		select {
		case <-e.changed:
		case <-c.up.last:
			return false
		case <-c.ctx.Done():
			return false
		}
	}
}

// read reads the bytes of src.
func (c *conn) read(p *pipe, src *net.TCPConn) {
	defer close(p.last)
	buf := make([]byte, pieceMax)
	for p.queue.room(p.lane.window, c.ctx.Done()) {
		n, err := src.Read(buf)
		it := item{at: time.Now(), luck: rand.Float64()}
		if n > 0 {
			it.data = bytes.Clone(buf[:n])
			if p == c.up {
				c.sent.add(it.data)
			}
			if p.lane.effect.Load().Cut {
				p.lane.withhold(&it)
			}
			p.queue.push(it)
		}
		switch {
		case errors.Is(err, io.EOF):
			it.data, it.end = nil, fin
		case err != nil:
			it.data, it.end = nil, reset
		default:
			continue
		}
		p.queue.push(it)
		return
	}
}

// write writes to dst the bytes that were read, as the lane permits. It continues after
// the sender's end: the other direction may still break.
func (c *conn) write(p *pipe, dst *net.TCPConn, back *pipe) {
	for {
		it, ok := p.queue.pop(c.ctx.Done())
		if !ok {
			return
		}
		switch it.end {
		case not:
			if !c.deliver(p, &it, dst) {
				// The receiver has closed; the reset travels back with the delay of the link.
				back.queue.push(item{end: reset, at: time.Now()})
				return
			}
		case fin:
			if !p.lane.await(&it, 0, c.ctx.Done()) {
				return
			}
			_ = dst.CloseWrite() // an error shows in the other direction
			if c.halves.Add(1) == 2 {
				c.finish()
			}
		case reset:
			if p.lane.await(&it, 0, c.ctx.Done()) {
				c.abort()
			}
			return
		}
	}
}

// deliver writes one item. It returns false if the connection is closed.
func (c *conn) deliver(p *pipe, it *item, dst *net.TCPConn) bool {
	for data := it.data; len(data) > 0; {
		n := p.lane.piece(len(data))
		if !p.lane.await(it, n, c.ctx.Done()) {
			return false
		}
		// Count first, so that the receiver of a byte finds it counted.
		p.lane.passed.Add(int64(n))
		if k, err := dst.Write(data[:n]); err != nil {
			p.lane.passed.Add(int64(k - n))
			return false
		}
		data = data[n:]
	}
	return true
}

// finish closes the connection when both sides have ended.
func (c *conn) finish() { c.close(false) }

// abort ends the connection on both sides with RST.
func (c *conn) abort() { c.close(true) }

func (c *conn) close(hard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.end()
	for _, s := range []*net.TCPConn{c.dialer, c.target} {
		if s == nil {
			continue
		}
		if hard {
			_ = s.SetLinger(0) // of a socket that is gone
		}
		_ = s.Close()
	}
}
