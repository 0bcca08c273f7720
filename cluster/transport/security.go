package transport

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Protocol is the ALPN name of raft's protocol, so that a connection that is meant for
// another port of a node is refused.
const Protocol = "osqueue-raft/1"

// Security protects the connections between nodes. The zero value protects nothing.
type Security struct {
	// Accept is the configuration of incoming connections. It must require a certificate
	// of a node and Protocol. Nil means plain TCP.
	Accept *tls.Config
	// Dial returns a protected connection over conn to the node at address. It closes conn
	// if that fails. Nil means plain TCP.
	Dial func(ctx context.Context, conn net.Conn, address string) (net.Conn, error)
}

// accept returns a protected connection over conn. The handshake takes place in the
// goroutine that reads first, so a client that sends nothing delays no other.
func (s Security) accept(conn net.Conn) net.Conn {
	if s.Accept == nil {
		return conn
	}
	return &acceptedConn{Conn: tls.Server(conn, s.Accept)}
}

// handshakeTimeout bounds the handshake of an incoming connection.
const handshakeTimeout = 3 * time.Second

// acceptedConn is an incoming TLS connection that bounds its handshake.
type acceptedConn struct {
	*tls.Conn
	once sync.Once
	err  error // of the handshake
}

// Read implements net.Conn.
func (c *acceptedConn) Read(p []byte) (int, error) {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		defer cancel()
		c.err = c.HandshakeContext(ctx)
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}
