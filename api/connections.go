package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
)

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
		b := &boundedConn{Conn: c, of: l.s.conns, client: core.HostOf(c.RemoteAddr().String()), legacy: l.legacy}
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
	of     *limit.Slots
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
	refuse := s.handler(&core.Route{Path: "over the connections", At: core.AnyNode, Right: auth.Public, Handle: over(s.overConnections)})
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
	conn := h.Ctx.Value(connKey{}).(*boundedConn)
	if errors.Is(conn.over, limit.ErrClient) {
		return core.Fail(core.OverConnections, "this node has %d connections from the address %s, the limit for one address; close some, or use "+
			"another node",
			core.Or(s.Config.ConnectionsEach, limit.Half(s.Config.MaxConnections)), conn.client)
	}
	return core.Fail(core.OverConnections, "this node has %d connections, its limit; retry after a moment, or use another node", s.Config.MaxConnections)
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
