package dtq

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/limit"
)

// Handler answers the clients of dtq and passes every other request to the node's HTTP
// API. It is safe for concurrent use. New makes it; it needs no Close.
type Handler struct {
	cfg    Config
	native native
	routes map[string]route // by path
	task   route            // of /task/{id}
	held   *handouts
	deaf   sync.Once // logs once that messages of dtq's brokers are ignored
}

// A route handles the requests of one path.
type route struct {
	allow  string // the methods, in dtq's order
	leader bool   // only the leader answers
	handle func(*call) *reply
}

const (
	allowPost = "OPTIONS, POST"
	allowGet  = "OPTIONS, GET, HEAD"
)

const taskPrefix = "/task/"

// New makes a handler. It panics without Native, Calls and Leader.
func New(cfg Config) *Handler {
	if cfg.Native == nil || cfg.Calls == nil || cfg.Leader == nil {
		panic("dtq: no HTTP API, or no leader, given")
	}
	h := &Handler{cfg: cfg.withDefaults(), native: native{cfg.Calls}, held: newHandouts()}
	h.routes = map[string]route{
		"/submit_task":      {allow: allowPost, leader: true, handle: h.submit},
		"/get_pending_task": {allow: allowPost, leader: true, handle: h.assign},
		"/complete_task":    {allow: allowPost, leader: true, handle: h.complete},
		"/register_worker":  {allow: allowPost, handle: h.register},
		"/heartbeat":        {allow: allowPost, handle: h.heartbeat},
		"/raft_message":     {allow: allowPost, handle: h.raftMessage},
		v1.PathStatus:       {allow: allowGet}, // the HTTP API's answer includes dtq's fields
	}
	h.task = route{allow: allowGet, handle: h.show}
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, ours := h.route(r.URL.Path)
	switch {
	case !ours, isPreflight(r):
		h.cfg.Native.ServeHTTP(w, r)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", rt.allow)
		w.WriteHeader(http.StatusOK)
	case !allows(rt.allow, r.Method):
		w.Header().Set("Allow", rt.allow)
		refusal(http.StatusMethodNotAllowed, "The method is not allowed for the requested URL").write(w)
	case rt.handle == nil:
		h.cfg.Native.ServeHTTP(w, r)
	default:
		c := &call{w: w, r: r, max: h.cfg.MaxBody, held: h.cfg.Inflight.Hold()}
		defer c.held.Release()
		h.answer(&rt, c).write(w)
	}
}

func (h *Handler) route(path string) (rt route, ours bool) {
	if rt, ours = h.routes[path]; ours {
		return rt, true
	}
	if strings.HasPrefix(path, taskPrefix) {
		return h.task, true
	}
	return route{}, false
}

// isPreflight reports whether r is the preflight request of a browser (CORS).
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

func allows(list, method string) bool {
	return slices.Contains(strings.Split(list, ", "), method)
}

// answer handles the call if this node may answer it. It checks leadership before the
// handler reads the body.
func (h *Handler) answer(rt *route, c *call) *reply {
	if rt.leader {
		if l := h.cfg.Leader(c.r); !l.Self {
			return notLeading(l)
		}
	}
	return rt.handle(c)
}

// notLeading names the leader to the client as dtq does, in the body of a 503 and not
// by an HTTP redirect.
func notLeading(l Leader) *reply {
	return jsonReply(http.StatusServiceUnavailable, struct {
		Error      string  `json:"error"`
		Leader     *string `json:"leader"`
		RedirectTo *string `json:"redirect_to"`
	}{"Not the leader", known(l.Node), known(l.URL)})
}

// known returns a pointer to s, nil if s is empty.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// clipMax is the largest number of bytes of a name in the log.
const clipMax = 64

// raftMessage serves POST /raft_message, which dtq's brokers send to each other. The
// message has no effect. The answer carries no information in dtq either: a broker
// sends its votes and confirmations as messages of their own, and this node sends none.
// To such a broker this node is unreachable, and counts for no majority.
func (h *Handler) raftMessage(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	if _, ok := textOf(in.Type); !ok {
		return refusal(http.StatusBadRequest, "the message has no type")
	}
	h.deaf.Do(func() {
		h.cfg.Logger.Warn("a broker of dtq takes this node for one of its peers; its messages have no effect: remove this node from its list of peers",
			"from", c.r.RemoteAddr, "candidate", limit.Clip(string(in.Candidate), clipMax), "leader", limit.Clip(string(in.Leader), clipMax))
	})
	return &reply{status: http.StatusNoContent}
}
