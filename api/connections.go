package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/share"
)

// The connections of a server are bounded, in total and for one address, because each takes
// some 30 KiB. A connection over a bound is accepted nevertheless, so that its client learns
// why it is refused: /healthz, /readyz and /metrics answer on it, any other request gets 503,
// which closes the connection. Further connections are closed at once.

// DefaultConnections is the default of Config.MaxConnections.
const DefaultConnections = 4096

// spareConnections is the number of connections over the bounds that are accepted.
const spareConnections = 64

// boundedListener counts its open connections.
type boundedListener struct {
	net.Listener
	s      *Server
	legacy bool // of ServeLegacy
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b := &boundedConn{Conn: c, of: l.s.conns, client: hostOf(c.RemoteAddr().String()), legacy: l.legacy}
		b.over = b.of.Enter(b.client)
		if b.over != nil {
			b.of = l.s.spare
			if b.of.Enter(b.client) != nil {
				_ = c.Close() // the client sees that the connection broke, and tries again
				continue
			}
		}
		b.pace.start()
		return b, nil
	}
}

// boundedConn is a connection that counts until it is closed.
type boundedConn struct {
	net.Conn
	of     *share.Limit
	client string
	over   error // the bound that it exceeds; nil: none
	legacy bool  // its clients are those of the legacy listener
	once   sync.Once
	pace   pacer
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(func() { c.of.Leave(c.client) })
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *boundedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.pace.read(n)
	return n, err
}

// Write implements net.Conn.
func (c *boundedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.pace.wrote(n)
	return n, err
}

// hostOf returns the address without the port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// connKey is the key of the *boundedConn of a request.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	for inner, ok := c.(interface{ NetConn() net.Conn }); ok; inner, ok = c.(interface{ NetConn() net.Conn }) {
		c = inner.NetConn()
	}
	if b, ok := c.(*boundedConn); ok {
		return context.WithValue(ctx, connKey{}, b)
	}
	return ctx
}

// withinBound refuses the requests of connections over the bounds, except those for the
// health and the metrics of the node.
func (s *Server) withinBound(next http.Handler) http.Handler {
	refuse := s.handler(&route{path: "over the connections", at: anyNode, right: auth.Public, handle: over(s.overConnections)})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// net/http hides whether the head had a Content-Length too, by which a proxy may
			// have taken other bytes for the next request (RFC 9112, 6.1).
			w.Header().Set("Connection", "close")
		}
		conn, _ := r.Context().Value(connKey{}).(*boundedConn)
		if conn != nil {
			conn.pace.request(r)
		}
		handle := next
		switch r.URL.Path {
		case v1.PathHealthz, v1.PathReadyz, v1.PathMetrics:
		default:
			if conn != nil && conn.over != nil {
				handle = refuse
			}
		}
		handle.ServeHTTP(w, r)
		finishBody(w, r)
	})
}

func (s *Server) overConnections(h *httpCall) error {
	h.Header().Set("Connection", "close")
	conn := h.ctx.Value(connKey{}).(*boundedConn)
	if errors.Is(conn.over, share.ErrClient) {
		return fail(overConnections, "this node has %d connections from the address %s, the limit for one address; close some, or use "+
			"another node",
			or(s.cfg.ConnectionsEach, share.Half(s.cfg.MaxConnections)), conn.client)
	}
	return fail(overConnections, "this node has %d connections, its limit; retry after a moment, or use another node", s.cfg.MaxConnections)
}

// countedBody counts the bytes of a body for the pace of its connection.
type countedBody struct {
	io.ReadCloser
	pace *pacer
}

// Read implements io.Reader.
func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.pace.earn(n)
	return n, err
}
