package osqueue

import (
	"net/http"
	"strings"

	v1 "osqueue/client/api/v1"
)

// Handler answers legacy clients and passes every other request to the node's HTTP API.
// It is safe for concurrent use. New makes it, Close ends it.
type Handler struct {
	cfg      Config
	native   *native
	rpc      map[string]http.Handler // by path
	sockets  *sockets
	capacity *capacity
}

// New makes a handler. It panics without Native and Calls, and if the metrics of another
// Handler are registered in Metrics.
func New(cfg Config) *Handler {
	if cfg.Native == nil || cfg.Calls == nil {
		panic("osqueue: no HTTP API given")
	}
	cfg = cfg.withDefaults()
	h := &Handler{cfg: cfg, native: newNative(&cfg), capacity: newCapacity(&cfg.Limits)}
	h.rpc = newRPC(h.native, cfg.Limits.MessageBytes)
	h.sockets = newSockets(&h.cfg, h.native, h.capacity)
	return h
}

// socketPath is the path of WebSockets.
const socketPath = "/v1/ws"

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Another node has already translated the request that it forwards.
	if len(r.Header[v1.HeaderForwarded]) > 0 {
		h.cfg.Native.ServeHTTP(w, r)
		return
	}
	h.cfg.Origins.mark(w, r)
	if r.Method == http.MethodOptions && !h.cfg.Origins.none {
		h.cfg.Origins.preflight(w, r)
		return
	}
	path := r.URL.Path
	if path == socketPath {
		h.serveSocket(w, r)
		return
	}
	if strings.HasPrefix(path, rpcPrefix) {
		if method := h.rpc[path]; method != nil {
			h.serveRPC(method, w, r)
			return
		}
	}
	if wantsProblems(r) {
		h.cfg.Native.ServeHTTP(w, r)
		return
	}
	h.serveREST(w, r)
}

// Close closes the WebSockets after their calls in flight have been answered or
// Limits.Grace has passed. http.Server does not close hijacked connections.
func (h *Handler) Close() { h.sockets.close() }
