package osqueue

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	v1 "osqueue/api/v1"
)

// sockets are the WebSockets that are open. It is safe for concurrent use.
type sockets struct {
	cfg     *Config
	native  *native
	room    *room // for messages
	metrics *metrics
	calls   places // under way, but for lists
	queued  atomic.Int64

	// ends when calls under way are to be given up.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	open   map[*socket]struct{}
	closed bool
	served sync.WaitGroup
}

func newSockets(cfg *Config, n *native, r *room) *sockets {
	s := &sockets{
		cfg: cfg, native: n, room: r, metrics: newMetrics(cfg.Metrics),
		calls: make(places, cfg.Limits.Calls),
		open:  make(map[*socket]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// serveSocket opens a WebSocket and serves it to its end.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !isHandshake(r) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			sendJSON(w, http.StatusNotFound, routeNotFound(r))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !h.cfg.Origins.allows(origin) {
		http.Error(w, "pages of this origin may not connect", http.StatusForbidden)
		return
	}
	s := newSocket(h.sockets, r.RemoteAddr)
	if why := h.sockets.admit(s); why != nil {
		sendFault(w, why)
		return
	}
	defer h.sockets.leave(s)
	taken := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // it has been looked at
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil { // and answered
		h.cfg.Logger.Debug("a WebSocket was not opened", "client", r.RemoteAddr, "error", err)
		return
	}
	s.serve(r.Context(), conn, taken.tcp)
}

// hijacked keeps the connection that is taken over.
type hijacked struct {
	http.ResponseWriter
	tcp net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.tcp = conn
	return conn, rw, err
}

// isHandshake reports whether a request asks for a WebSocket.
func isHandshake(r *http.Request) bool {
	return r.Method == http.MethodGet && has(r.Header, "Connection", "upgrade") && has(r.Header, "Upgrade", "websocket")
}

// has reports whether a header, which is a list, has an element.
func has(h http.Header, name, element string) bool {
	for _, line := range h[name] {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(one), element) {
				return true
			}
		}
	}
	return false
}

// admit counts a WebSocket, or says why there can be none.
func (s *sockets) admit(one *socket) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &fault{v1.TagClosing, "this node is shutting down; ask another one"}
	case len(s.open) >= s.cfg.Limits.Connections:
		s.metrics.refused.Inc()
		return &fault{v1.TagOverloaded, "there are too many WebSockets on this node; ask another one"}
	}
	s.open[one] = struct{}{}
	s.metrics.open.Inc()
	s.served.Add(1)
	return nil
}

func (s *sockets) leave(one *socket) {
	s.mu.Lock()
	delete(s.open, one)
	s.metrics.open.Dec()
	s.mu.Unlock()
	s.served.Done()
}

// close ends all WebSockets and returns when they are served no more.
func (s *sockets) close() {
	s.mu.Lock()
	s.closed = true
	all := make([]*socket, 0, len(s.open))
	for one := range s.open {
		all = append(all, one)
	}
	s.mu.Unlock()
	var retired sync.WaitGroup
	for _, one := range all {
		retired.Go(one.retire)
	}
	retired.Wait()
	s.cancel()
	s.served.Wait()
}

// reserve counts bytes that wait for a client, unless there is no room for them.
func (s *sockets) reserve(n int) bool {
	if s.queued.Add(int64(n)) <= s.cfg.Limits.AllQueueBytes {
		return true
	}
	s.free(n)
	return false
}

func (s *sockets) free(n int) { s.queued.Add(-int64(n)) }
