package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log" //nolint:depguard // net/http wants one
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
	"osqueue/internal/web"
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
		b := &boundedConn{Conn: c, of: l.s.conns, client: web.HostOf(c.RemoteAddr().String()), legacy: l.legacy}
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

// HTTP/2 lets a client send frames that belong to no request, such as SETTINGS and PING. net/http
// answers each, so a flood of them costs a CPU. The pacer of a connection lets it read only so many
// bytes as its requests have, and an allowance in addition: beyond it reads are delayed. HTTP/1 has no
// such frames, and its connections are not paced.

const (
	paceRate  = 128 << 10 // bytes per second of the allowance; a PING has 17
	paceBurst = 1 << 20   // the largest allowance, in bytes
	paceDelay = 100 * time.Millisecond
	// paceHead is the part of a head that is not in its headers, with the frames by which a
	// client acknowledges the answer.
	paceHead = 256
	// paceField is the part of a header that is not in its name and value.
	paceField = 8
	// A client may send a WINDOW_UPDATE of 26 bytes for each 4 KiB that it reads.
	paceWrite, paceShare = 1 << 10, 64
)

// pacer paces one connection. One goroutine reads; others may call the other methods.
type pacer struct {
	free     atomic.Bool  // HTTP/1: not paced
	left     atomic.Int64 // bytes that may be read without a delay
	refilled time.Time    // by the reading goroutine
}

func (p *pacer) start() {
	p.left.Store(paceBurst)
	p.refilled = time.Now()
}

// read counts n bytes that were read, and delays its caller if they are too many.
func (p *pacer) read(n int) {
	if p.free.Load() || n <= 0 || p.left.Add(-int64(n)) > 0 {
		return
	}
	now := time.Now()
	earned := now.Sub(p.refilled).Seconds() * paceRate
	p.refilled = now
	left := p.left.Add(int64(min(earned, paceBurst)))
	if left < 0 && !p.free.Load() {
		time.Sleep(min(time.Duration(float64(-left)/paceRate*float64(time.Second)), paceDelay))
	}
}

// earn lets the connection read n more bytes.
func (p *pacer) earn(n int) {
	if n > 0 && p.left.Load() < paceBurst {
		p.left.Add(int64(n))
	}
}

// wrote counts n bytes that were written.
func (p *pacer) wrote(n int) {
	if n >= paceWrite && !p.free.Load() {
		p.earn(n / paceShare)
	}
}

// request counts the head of a request, and lets its body count.
func (p *pacer) request(r *http.Request) {
	if p.free.Load() {
		return
	}
	if r.ProtoMajor == 1 {
		p.free.Store(true)
		return
	}
	head := paceHead + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			head += paceField + len(name) + len(value)
		}
	}
	p.earn(head)
	if r.ContentLength != 0 {
		r.Body = &countedBody{r.Body, p}
	}
}

// freshConns are the connections on which no request has arrived yet. Clients open such
// connections in advance, and net/http counts each as a request that may arrive: at shutdown it
// would wait seconds for a request that never arrives.
type freshConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// freshGrace is the time in which a fresh connection may still send its request once the server
// is shutting down.
const freshGrace = 200 * time.Millisecond

// track implements the ConnState hook of http.Server.
func (f *freshConns) track(c net.Conn, state http.ConnState) {
	if state == http.StateIdle {
		return // was active before
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, c)
		return
	}
	if f.conns == nil {
		f.conns = make(map[net.Conn]struct{})
	}
	f.conns[c] = struct{}{}
}

// shutDown shuts down the server whose connections f has.
func (f *freshConns) shutDown(ctx context.Context, server *http.Server) error {
	defer time.AfterFunc(freshGrace, f.close).Stop()
	return server.Shutdown(ctx)
}

// close closes the fresh connections. The server accepts no more connections by then.
func (f *freshConns) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close() // it has nothing to lose
	}
}

// unreadMax bounds the bytes of a refused body that are read.
const unreadMax = 16 << 20

// finishBody sends the answer and reads the rest of an HTTP/1 body that was refused. If a
// connection with unread bytes is closed, its client gets a reset, and can lose the answer that
// says why it was refused (RFC 9112, 9.6). net/http reads a short rest, or waits half a second
// before it closes; it does neither if the client asked to close the connection.
func finishBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || len(r.Header["Expect"]) > 0 {
		return
	}
	if _, err := w.Write(nil); err != nil { // a handler has taken the connection
		return
	}
	if r.ContentLength > 0 {
		if _, err := r.Body.Read(nil); err != nil { // it was read to its end
			return
		}
	}
	if http.NewResponseController(w).Flush() == nil {
		_, _ = io.CopyN(io.Discard, r.Body, unreadMax) // in the time that the server has for a body
	}
}

// Bounds of the lines that net/http logs about connections.
const (
	errorLines = 1 // a second
	errorBurst = 20
)

// errorLog writes what net/http reports to a log. Strangers can cause a line with each connection, for
// example when it is not TLS, so their number is bounded: they must not fill the disk. The first line
// after a gap says how many were left out. Panics are all logged.
type errorLog struct {
	log     hclog.Logger
	limit   *rate.Limiter
	skipped atomic.Int64
}

func newErrorLog(l hclog.Logger) *log.Logger {
	return log.New(&errorLog{log: l, limit: rate.NewLimiter(errorLines, errorBurst)}, "", 0)
}

// Write implements io.Writer for one line.
func (e *errorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	switch {
	case bytes.HasPrefix(line, []byte("http: panic serving")):
		e.log.Error(text)
	case !e.limit.Allow():
		e.skipped.Add(1)
	default:
		if n := e.skipped.Swap(0); n > 0 {
			e.log.Info(text, "skipped", n)
		} else {
			e.log.Info(text)
		}
	}
	return len(line), nil
}
