package limit

import (
	"net"
	"runtime"
	"sync/atomic"
)

// handshakes are taken by the connections that work on a handshake. Half of the processors are left
// for the rest of the process.
var handshakes = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Handshakes returns a handshakeListener of the connections of ln, to be given to a TLS server.
func Handshakes(ln net.Listener) net.Listener { return handshakeListener{ln} }

type handshakeListener struct{ net.Listener }

// Accept implements net.Listener.
func (l handshakeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Handshake(c), nil
}

// Handshake returns a connection to be given to tls.Server.
func Handshake(c net.Conn) net.Conn { return &handshakeConn{Conn: c} }

// handshakeConn is a connection that takes a slot when bytes arrive, until its first write: then the
// server's part of the handshake is done.
type handshakeConn struct {
	net.Conn
	answered atomic.Bool
	working  atomic.Bool // it has a slot
}

// NetConn returns the connection below, as tls.Conn does.
func (c *handshakeConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *handshakeConn) Read(p []byte) (int, error) {
	if c.answered.Load() {
		return c.Conn.Read(p)
	}
	c.rest()
	n, err := c.Conn.Read(p)
	if n > 0 {
		handshakes <- struct{}{}
		c.working.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (c *handshakeConn) Write(p []byte) (int, error) {
	if !c.answered.Load() {
		c.answered.Store(true)
		c.rest()
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *handshakeConn) Close() error {
	c.rest()
	return c.Conn.Close()
}

// rest releases the slot.
func (c *handshakeConn) rest() {
	if c.working.CompareAndSwap(true, false) {
		<-handshakes
	}
}
