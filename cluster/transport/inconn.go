package transport

import (
	"net"
	"time"

	"osqueue/internal/limit"
)

// The bounds of the requests of other nodes.
const (
	// freeBytes is the part of a request that takes nothing of the budget, so that a
	// stranger who uses up the budget does not stop heartbeats and ordinary entries.
	freeBytes = 256 << 10
	// inboundBytes is the budget of all connections for the rest of their requests.
	inboundBytes = 24 << 20
	// requestPatience is the time for a request of ordinary size to arrive, once it has
	// begun. Larger requests have time in proportion.
	requestPatience = 2 * ConnTimeout
	// snapshotPatience is added for the bytes of a snapshot: its sender may have to read
	// them from the bucket first.
	snapshotPatience = 50 * time.Second
)

// inboundConn is an accepted connection. It refuses requests that are too large or too
// slow, and removes itself from its stream when it is closed. One goroutine uses it at a
// time: raft reads a request, answers it and reads the next one.
type inboundConn struct {
	net.Conn
	stream *stream
	in     message
	held   limit.Hold
	began  time.Time // of the request that arrives
	bytes  int64     // of the request that arrives, with those of a snapshot
}

// Read implements net.Conn. It fails if a request does not arrive at the rate of the
// slowest link. Between requests it waits without limit.
func (c *inboundConn) Read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	if c.bytes == 0 {
		c.began = time.Now()
	}
	c.bytes += int64(n)
	if over := c.in.read(p[:n]); over != nil {
		return 0, over
	}
	if over := c.count(); over != nil {
		return 0, over
	}
	return n, err
}

// deadline returns the time until which the next bytes must arrive.
func (c *inboundConn) deadline() time.Time {
	if c.bytes == 0 || !c.in.under() {
		return time.Time{}
	}
	patience := requestPatience
	if c.in.raw {
		patience += snapshotPatience
	}
	return c.began.Add(patience + time.Duration(c.bytes/slowestLink)*time.Second)
}

// count takes the bytes of the request from the budget. The bytes of a snapshot go to the
// disk.
func (c *inboundConn) count() error {
	if more := c.in.bytes - freeBytes - c.held.Taken(); more > 0 {
		return c.held.Take(int(more))
	}
	return nil
}

// Write implements net.Conn. Raft writes an answer when it has handled the request.
func (c *inboundConn) Write(p []byte) (int, error) {
	if c.in.raw {
		c.in.answered()
	}
	c.held.Release()
	c.bytes = 0
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *inboundConn) Close() error {
	c.held.Release()
	c.stream.mu.Lock()
	delete(c.stream.inbound, c)
	c.stream.mu.Unlock()
	return c.Conn.Close()
}
