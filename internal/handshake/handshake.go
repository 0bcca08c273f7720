// Package handshake bounds the work of TLS handshakes.
//
// # Problem
//
// A handshake costs its client little and this process a signature and a key exchange, before
// the client has proved anything. Many at once take the processor from the goroutines of raft, and the
// leader loses its term.
//
// # Approach
//
// A connection needs a slot while it works on a handshake: from the arrival of bytes until
// it writes its answer, or reads on. It has none while it waits for its client, so a client
// that sends nothing delays no other. All ports of the process share the slots.
package handshake

import (
	"net"
	"runtime"
	"sync/atomic"
)

// slots are taken by the connections that work on a handshake. Half of the processors are left
// for the rest of the process.
var slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Listen returns a listener of the connections of ln, to be given to a TLS server.
func Listen(ln net.Listener) net.Listener { return listener{ln} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Bound(c), nil
}

// Bound returns a connection to be given to tls.Server.
func Bound(c net.Conn) net.Conn { return &conn{Conn: c} }

// conn is a connection that takes a slot when bytes arrive, until its first write: then the
// server's part of the handshake is done.
type conn struct {
	net.Conn
	answered atomic.Bool
	working  atomic.Bool // it has a slot
}

// NetConn returns the connection below, as tls.Conn does.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.answered.Load() {
		return c.Conn.Read(p)
	}
	c.rest()
	n, err := c.Conn.Read(p)
	if n > 0 {
		slots <- struct{}{}
		c.working.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if !c.answered.Load() {
		c.answered.Store(true)
		c.rest()
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.rest()
	return c.Conn.Close()
}

// rest gives the slot back.
func (c *conn) rest() {
	if c.working.CompareAndSwap(true, false) {
		<-slots
	}
}
