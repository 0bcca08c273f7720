package web

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"osqueue/internal/sleep"
)

// MuxConfig configures a Mux. All fields are required.
type MuxConfig struct {
	// Sort returns the branch of a connection, and the connection to accept there. It runs in
	// a goroutine of its own, until ctx ends, and does not close the connection.
	Sort     func(ctx context.Context, c *Conn) (branch int, out net.Conn, err error)
	Branches int
	Patience time.Duration // for Sort and the wait for Accept
	Max      int           // connections that are being sorted
}

// Mux hands the connections of a listener to its branches. It is safe for concurrent use.
type Mux struct {
	cfg      MuxConfig
	ln       net.Listener
	branches []*branch
	places   chan struct{}
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
}

// NewMux returns a mux that accepts the connections of ln, which it owns.
func NewMux(ln net.Listener, cfg MuxConfig) *Mux {
	m := &Mux{cfg: cfg, ln: ln, places: make(chan struct{}, cfg.Max)}
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	for range cfg.Branches {
		m.branches = append(m.branches, &branch{mux: m, conns: make(chan net.Conn), closed: make(chan struct{})})
	}
	m.wg.Go(m.accept)
	return m
}

// Branch returns the listener of a branch. When all branches are closed, so is the mux.
func (m *Mux) Branch(i int) net.Listener { return m.branches[i] }

// Close closes the listener and the connections that no branch has accepted yet.
func (m *Mux) Close() error {
	m.cancel(net.ErrClosed)
	err := m.ln.Close()
	m.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// retryAccept is the pause after a temporary error of the listener, such as too many open
// files.
const retryAccept = 20 * time.Millisecond

func (m *Mux) accept() {
	for {
		c, err := m.ln.Accept()
		if err != nil {
			if t, ok := err.(interface{ Temporary() bool }); ok && t.Temporary() && sleep.For(m.ctx, retryAccept) {
				continue
			}
			m.cancel(err)
			return
		}
		select {
		case m.places <- struct{}{}:
			m.wg.Go(func() { m.handle(c) })
		default:
			_ = c.Close() // too many; the client connects again
		}
	}
}

// handle sorts one connection and waits until its branch accepts it.
func (m *Mux) handle(c net.Conn) {
	defer func() { <-m.places }()
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	i, out, err := m.cfg.Sort(ctx, &Conn{Conn: c})
	if err != nil {
		stop()
		_ = c.Close()
		return
	}
	if stop() && m.branches[i].hand(ctx, out) {
		return
	}
	_ = out.Close()
}

// branch is the listener of one kind of connections.
type branch struct {
	mux    *Mux
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// hand returns true when Accept has taken the connection.
func (b *branch) hand(ctx context.Context, c net.Conn) bool {
	select {
	case b.conns <- c:
		return true
	case <-b.closed:
	case <-ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (b *branch) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.closed:
		return nil, net.ErrClosed
	case <-b.mux.ctx.Done():
		return nil, context.Cause(b.mux.ctx)
	}
}

// Close implements net.Listener.
func (b *branch) Close() error {
	b.once.Do(func() { close(b.closed) })
	for _, other := range b.mux.branches {
		select {
		case <-other.closed:
		default:
			return nil
		}
	}
	return b.mux.Close()
}

// Addr implements net.Listener.
func (b *branch) Addr() net.Addr { return b.mux.ln.Addr() }

// Conn is a connection whose first byte can be read twice. One goroutine reads at a time.
type Conn struct {
	net.Conn
	first   [1]byte
	pending bool // first is to be read again
}

// First returns the first byte, which Read returns again.
func (c *Conn) First() (byte, error) {
	if c.pending {
		return c.first[0], nil
	}
	if _, err := io.ReadFull(c.Conn, c.first[:]); err != nil {
		return 0, err
	}
	c.pending = true
	return c.first[0], nil
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if c.pending && len(p) > 0 {
		c.pending = false
		p[0] = c.first[0]
		return 1, nil
	}
	return c.Conn.Read(p)
}

// NetConn returns the connection below, as tls.Conn does.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// TLSByte is the first byte of a TLS connection.
const TLSByte = 0x16
