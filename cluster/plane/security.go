package plane

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// The ALPN names of the protocols between nodes.
const (
	RaftProtocol = "osqueue-raft/1"
	PeerProtocol = "osqueue-peer/1"
)

// Security protects the connections between nodes. The zero value protects nothing.
type Security struct {
	// Accept is the configuration of incoming connections. It must require a certificate of a
	// node, and offer both protocols. Nil means plain TCP.
	Accept *tls.Config
	// Peer returns the node that has opened a connection. It is required with Accept.
	Peer func(tls.ConnectionState) (p Peer, ok bool)
	// Dial returns a protected connection over conn to the node at address, for a protocol of
	// ALPN. It closes conn if that fails. It is required with Accept.
	Dial func(ctx context.Context, conn net.Conn, address, protocol string) (net.Conn, error)
	// Plain allows connections without TLS in addition, while a cluster gets certificates.
	Plain bool
	// Fallback, unless nil, is called when a node could not be reached with TLS and is dialed
	// without it.
	Fallback func(address string, err error)
}

// protected reports whether nodes have certificates.
func (s *Security) protected() bool { return s.Accept != nil }

const (
	dialTimeout    = 2 * time.Second
	keepAliveEvery = 15 * time.Second
)

// open connects to a node, and makes the connection one of the protocol.
func (s *Security) open(ctx context.Context, address, protocol string, begin func(net.Conn) error) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: keepAliveEvery}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if s.protected() {
		secured, err := s.Dial(ctx, c, address, protocol)
		if err == nil || !s.Plain || ctx.Err() != nil {
			return secured, err
		}
		if s.Fallback != nil {
			s.Fallback(address, err)
		}
		if c, err = dialer.DialContext(ctx, "tcp", address); err != nil {
			return nil, err
		}
	}
	if err := begin(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// OpenRaft connects to raft of the node at a raft address.
func (s *Security) OpenRaft(ctx context.Context, address string) (net.Conn, error) {
	return s.open(ctx, address, RaftProtocol, func(net.Conn) error { return nil })
}
