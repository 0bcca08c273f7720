package osqueue

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// sockets is the set of open WebSockets. It is safe for concurrent use.
type sockets struct {
	cfg      *Config
	native   *native
	capacity *capacity // of messages
	metrics  *metrics
	calls    slots // of calls in flight, without lists
	queued   atomic.Int64
	listed   atomic.Int64 // bytes of the last list

	// ctx is cancelled when close gives the calls in flight up.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	shares *limit.Slots
	open   map[*socket]struct{}
	closed bool
	served sync.WaitGroup
}

func newSockets(cfg *Config, n *native, c *capacity) *sockets {
	s := &sockets{
		cfg: cfg, native: n, capacity: c, metrics: newMetrics(cfg.Metrics),
		calls:  make(slots, cfg.Limits.Calls),
		shares: limit.NewSlots(cfg.Limits.Connections, cfg.Limits.Each),
		open:   make(map[*socket]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// serveSocket opens a WebSocket and serves it until it is closed.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !web.Upgrades(r, "websocket") {
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
	s.client = h.cfg.Client(r)
	if why := h.sockets.admit(s); why != nil {
		sendFault(w, why)
		return
	}
	defer h.sockets.leave(s)
	taken := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin has been checked
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil { // Accept has answered
		h.cfg.Logger.Debug("a WebSocket was not opened", "client", r.RemoteAddr, "error", err)
		return
	}
	s.serve(r.Context(), conn, taken.tcp)
}

// hijacked records the connection that Accept takes over.
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

// admit counts a new WebSocket, or returns the reason why it is refused.
func (s *sockets) admit(one *socket) *compat.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return refuse(v1.TagClosing, "this node is shutting down; use another one")
	}
	switch err := s.shares.Enter(one.client); {
	case errors.Is(err, limit.ErrClient):
		s.metrics.refused.Inc()
		return refuse(v1.TagOverloaded, "this client has too many WebSockets open on this node; close some, or use another node")
	case err != nil:
		s.metrics.refused.Inc()
		return refuse(v1.TagOverloaded, "too many WebSockets are open on this node; use another one")
	}
	s.open[one] = struct{}{}
	s.metrics.open.Inc()
	s.served.Add(1)
	return nil
}

func (s *sockets) leave(one *socket) {
	s.mu.Lock()
	delete(s.open, one)
	s.shares.Leave(one.client)
	s.metrics.open.Dec()
	s.mu.Unlock()
	s.served.Done()
}

// close closes all WebSockets and returns when their goroutines have ended.
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

// reserve counts n bytes that wait for a client. It returns false if they and others exceed the limit. They
// count in the budget also if it is used up: the call has been made, and its answer must be sent.
func (s *sockets) reserve(n int) bool {
	if all := s.queued.Add(int64(n)); all > s.cfg.Limits.AllQueueBytes && all > int64(n) {
		s.queued.Add(-int64(n))
		return false
	}
	s.cfg.Inflight.Add(int64(n))
	return true
}

// fits reports whether n bytes more may wait now.
func (s *sockets) fits(n int64) bool {
	waiting := s.queued.Load()
	return waiting == 0 || waiting+n <= s.cfg.Limits.AllQueueBytes
}

func (s *sockets) free(n int) {
	s.queued.Add(-int64(n))
	s.cfg.Inflight.Add(-int64(n))
}
