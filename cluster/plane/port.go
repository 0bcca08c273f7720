package plane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// Bounds of the port.
const (
	handshakeTimeout = 3 * time.Second
	sortMax          = 4096 // connections whose protocol is not known yet: a follower forwards each waiting request on one
	raftKinds        = 5    // kinds of raft requests, which are the first byte
	allowEvery       = 250 * time.Millisecond
)

// The branches of the mux.
const (
	raftBranch = iota
	peerBranch
	numBranches
)

// branches has the branches of the protocols of ALPN.
var branches = map[string]int{RaftProtocol: raftBranch, PeerProtocol: peerBranch}

// Port is the port of a node for the other nodes. Its methods are safe for concurrent use.
type Port struct {
	security Security
	log      hclog.Logger
	mux      *web.Mux
	done     chan struct{}
	wg       sync.WaitGroup
	refused  limit.Repeats // of the log

	mu    sync.Mutex
	allow func(Peer) error        // nil: every node
	open  map[*namedConn]struct{} // nil once closed
}

// Listen opens the port.
func Listen(bind string, s Security, log hclog.Logger) (*Port, error) {
	ln, err := s.Network.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("listen for raft on %s: %w", bind, err)
	}
	p := &Port{security: s, log: log, done: make(chan struct{}), open: make(map[*namedConn]struct{})}
	p.mux = web.NewMux(ln, web.MuxConfig{Sort: p.sort, Branches: numBranches, Patience: handshakeTimeout, Max: sortMax})
	p.wg.Go(p.watch)
	return p, nil
}

// Raft returns the listener of raft's connections, and Peers that of the calls of peers.
func (p *Port) Raft() net.Listener { return p.mux.Branch(raftBranch) }

// Peers returns the listener of the calls of peers.
func (p *Port) Peers() net.Listener { return p.mux.Branch(peerBranch) }

// Security returns how connections are made.
func (p *Port) Security() *Security { return &p.security }

// Addr returns the address on which the port listens.
func (p *Port) Addr() net.Addr { return p.mux.Branch(raftBranch).Addr() }

// Close closes the port and all connections with certificates.
func (p *Port) Close() error {
	err := p.mux.Close()
	p.mu.Lock()
	open := p.open
	p.open = nil
	if open != nil {
		close(p.done)
	}
	p.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close() // it may be closed already
	}
	p.wg.Wait()
	return err
}

// Peer is the node that a certificate names.
type Peer struct {
	Name   string
	Issued time.Time // of the certificate
}

// Allow sets the function that says whether a node may have connections. It is
// asked for each new one, and again every allowEvery for those that are open.
func (p *Port) Allow(allow func(Peer) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allow = allow
}

// watch closes the connections of nodes that may no longer have them.
func (p *Port) watch() {
	tick := time.NewTicker(allowEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.cut()
		case <-p.done:
			return
		}
	}
}

func (p *Port) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.allow == nil {
		return
	}
	answers := make(map[Peer]error)
	for c := range p.open {
		err, known := answers[c.peer]
		if !known {
			err = p.allow(c.peer)
			answers[c.peer] = err
		}
		if err != nil {
			p.log.Warn("closed a connection of a node", "node", c.peer.Name, "client", c.RemoteAddr(), "reason", err)
			_ = c.Conn.Close() // its reader calls Close
			delete(p.open, c)
		}
	}
}

var errUnknown = errors.New("the connection is neither raft's nor a call of a node's API")

// sort returns the branch of a connection.
func (p *Port) sort(ctx context.Context, c *web.Conn) (int, net.Conn, error) {
	first, err := c.First()
	if err != nil {
		return 0, nil, err
	}
	if p.security.protected() && first == web.TLSByte {
		return p.sortTLS(ctx, c)
	}
	if p.security.protected() && !p.security.Plain {
		return 0, nil, errUnknown
	}
	switch {
	case first < raftKinds:
		return raftBranch, c, nil
	case first == peerGreeting[0]:
		return peerBranch, c, greet(c)
	}
	return 0, nil, errUnknown
}

func (p *Port) sortTLS(ctx context.Context, c net.Conn) (int, net.Conn, error) {
	secured := tls.Server(limit.Handshake(c), p.security.Accept)
	if err := secured.HandshakeContext(ctx); err != nil {
		p.log.Debug("a connection was refused", "client", c.RemoteAddr(), "reason", err)
		return 0, nil, err
	}
	state := secured.ConnectionState()
	branch, known := branches[state.NegotiatedProtocol]
	peer, ok := p.security.Peer(state)
	if !known || !ok {
		return 0, nil, errUnknown
	}
	named := &namedConn{Conn: secured, port: p, peer: peer}
	if err := p.admit(named); err != nil {
		if _, due := p.refused.Due(peer.Name); due { // it dials again and again
			p.log.Warn("refused a connection of a node", "node", peer.Name, "client", c.RemoteAddr(), "reason", err)
		}
		return 0, nil, err
	}
	return branch, named, nil
}

// admit registers a connection of a node that may have it.
func (p *Port) admit(c *namedConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return net.ErrClosed
	}
	if p.allow != nil {
		if err := p.allow(c.peer); err != nil {
			return err
		}
	}
	p.open[c] = struct{}{}
	return nil
}

// namedConn is a connection whose certificate names a node.
type namedConn struct {
	*tls.Conn
	port *Port
	peer Peer
}

// NodeOf returns the name of the node that a connection of a Port belongs to, or "" without a
// certificate.
func NodeOf(c net.Conn) string {
	if n, ok := c.(*namedConn); ok {
		return n.peer.Name
	}
	return ""
}

// StateOf returns the TLS state of a connection of a Port, or nil without a certificate.
func StateOf(c net.Conn) *tls.ConnectionState {
	if n, ok := c.(*namedConn); ok {
		state := n.ConnectionState()
		return &state
	}
	return nil
}

// Close implements net.Conn.
func (c *namedConn) Close() error {
	c.port.mu.Lock()
	delete(c.port.open, c)
	c.port.mu.Unlock()
	return c.Conn.Close()
}

// peerGreeting begins a connection for calls of peers without TLS, in both directions.
const peerGreeting = PeerProtocol + "\n"

// greet answers the greeting of a node.
func greet(c net.Conn) error {
	if err := hear(c); err != nil {
		return err
	}
	_, err := io.WriteString(c, peerGreeting)
	return err
}

// hear reads a greeting.
func hear(c net.Conn) error {
	var got [len(peerGreeting)]byte
	if _, err := io.ReadFull(c, got[:]); err != nil {
		return err
	}
	if string(got[:]) != peerGreeting {
		return errUnknown
	}
	return nil
}
