package osqueue

import (
	"net/http"
	"strings"

	v1 "osqueue/api/v1"
)

// Handler answers the clients of the original, and has the node's HTTP API answer
// everybody else. It is safe for concurrent use. Make it with New, end it with
// Close.
type Handler struct {
	cfg     Config
	native  *native
	rpc     map[string]http.Handler // by path
	sockets *sockets
	room    *room
}

// New makes a handler. It panics without Native and Calls, and if Metrics has the
// figures of another one.
func New(cfg Config) *Handler {
	if cfg.Native == nil || cfg.Calls == nil {
		panic("osqueue: no HTTP API given")
	}
	cfg = cfg.withDefaults()
	h := &Handler{cfg: cfg, native: newNative(&cfg), room: newRoom(&cfg.Limits)}
	h.rpc = newRPC(h.native, cfg.Limits.MessageBytes)
	h.sockets = newSockets(&h.cfg, h.native, h.room)
	return h
}

// socketPath is where WebSockets are opened.
const socketPath = "/v1/ws"

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// What another node passes on has been through here there.
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

// Close ends the WebSockets: what is under way has a short time to be answered.
// The server that the handler is of does not know of them any more.
func (h *Handler) Close() { h.sockets.close() }
