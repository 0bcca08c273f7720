package replay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"osqueue/internal/web"
)

// network connects the nodes of a cluster and their clients in memory, so that a test can run
// them in simulated time. Its connections never wait for the reader.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	dialed    uint16
}

func newNetwork() *network { return &network{listeners: make(map[string]*listener)} }

// web returns the network as a node has it.
func (n *network) web() web.Network { return web.Network{Open: n.listen, Connect: n.dial} }

func (n *network) listen(_, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil { // a Unix socket
		return nil, errors.ErrUnsupported
	}
	l := &listener{at: at, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l, nil
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.dialed++
	from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), n.dialed)
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	there, back := newPipe(), newPipe()
	select {
	case l.conns <- &conn{in: there, out: back, local: l.at, remote: from}:
		return &conn{in: back, out: there, local: from, remote: l.at}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	at     netip.AddrPort
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// pipe is one direction of a connection.
type pipe struct {
	mu       sync.Mutex
	changed  sync.Cond
	data     []byte
	ended    bool      // by the writer
	left     bool      // by the reader
	deadline time.Time // of reads
	timer    *time.Timer
}

func newPipe() *pipe {
	p := new(pipe)
	p.changed.L = &p.mu
	return p
}

// change changes the pipe, and wakes those that wait for it.
func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.left:
			return 0, net.ErrClosed
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(p.data) > 0 || len(b) == 0:
			n := copy(b, p.data)
			p.data = p.data[n:]
			return n, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.change(func() {
		switch {
		case p.ended:
			err = net.ErrClosed
		case p.left:
			err = syscall.EPIPE
		default:
			n, p.data = len(b), append(p.data, b...)
		}
	})
	return n, err
}

func (p *pipe) readUntil(t time.Time) {
	p.change(func() {
		p.deadline = t
		if p.timer != nil {
			p.timer.Stop()
		}
		if !t.IsZero() {
			p.timer = time.AfterFunc(time.Until(t), func() { p.change(func() {}) })
		}
	})
}

// conn is one end of a connection.
type conn struct {
	in, out       *pipe
	local, remote netip.AddrPort
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.in.read(b) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.in.readUntil(time.Time{})
	c.in.change(func() { c.in.left = true })
	c.out.change(func() { c.out.ended = true })
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline implements net.Conn. Writes need none.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.readUntil(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
