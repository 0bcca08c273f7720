package api

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	v1 "osqueue/client/api/v1"
)

// The connections of a server are bounded, because each takes some 30 KiB. A connection
// over the bound is accepted nevertheless, so that its client learns why it is refused:
// /healthz, /readyz and /metrics answer on it, any other request gets 503, which closes
// the connection. A connection over both bounds is closed at once.

// DefaultConnections is the default of Config.MaxConnections.
const DefaultConnections = 4096

// spareConnections is the number of connections over the bound that are accepted.
const spareConnections = 64

// boundedListener counts its open connections.
type boundedListener struct {
	net.Listener
	max  int64
	open atomic.Int64
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := l.open.Add(1)
		if n <= l.max+spareConnections {
			return &boundedConn{Conn: c, listener: l, spare: n > l.max}, nil
		}
		l.open.Add(-1)
		_ = c.Close() // the client sees that the connection broke, and tries again
	}
}

// boundedConn is a connection that counts until it is closed.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	spare    bool
	once     sync.Once
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}

// spareKey marks the requests of connections over the bound.
type spareKey struct{}

func markSpare(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if b, ok := c.(*boundedConn); ok && b.spare {
		return context.WithValue(ctx, spareKey{}, true)
	}
	return ctx
}

// withinBound refuses the requests of connections over the bound, except those for the
// health and the metrics of the node.
func (s *Server) withinBound(next http.Handler) http.Handler {
	refuse := s.handler(&route{path: "over the connections", at: anyNode, handle: func(c *call) error {
		c.Header().Set("Connection", "close")
		return fail(overConnections, "this node has %d connections, which is its limit; retry after a moment, or at another node",
			s.cfg.MaxConnections)
	}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case v1.PathHealthz, v1.PathReadyz, v1.PathMetrics:
			next.ServeHTTP(w, r)
		default:
			if r.Context().Value(spareKey{}) != nil {
				refuse.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}
	})
}
