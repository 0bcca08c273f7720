package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gorilla/mux"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// route is one method on one path.
type route struct {
	method string // GET answers HEAD too
	path   string // with one variable at most, which is the third segment, as in /v1/jobs/{id}
	at     routing
	waits  bool // the body may ask to wait
	// awaitsEnd: waitMs is how long to wait for the end of a job, not how long
	// to wait for a state that is fresh enough.
	awaitsEnd bool
	// lenient: older clients of a legacy contract call it, whose unknown fields are
	// ignored unless they ask for strict handling. Elsewhere they are refused.
	lenient bool
	past    bool     // v1.ParamAt selects an earlier state
	params  []string // of the query, in addition to those of every read or write
	handle  func(*call) error
	right   auth.Right // of rights.go; one of them is enough
}

// routing is the place where a request can be handled.
type routing uint8

const (
	anyNode    routing = iota
	leaderOnly         // writes
	upToDate           // reads, as fresh as the request wants them
	inMemory           // about what only the leader has, in memory: commits nothing
)

// ServeHTTP answers one request. It only matches with the router: to serve through it would copy the request twice.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := matches.Get().(*mux.RouteMatch)
	s.router.Match(r, match) // if nothing matches, match has the handler for that
	h, object := match.Handler, ""
	for _, value := range match.Vars {
		object = value // a path has one variable at most
	}
	clear(match.Vars)
	*match = mux.RouteMatch{Vars: match.Vars}
	matches.Put(match)
	if e, ok := h.(*endpoint); ok {
		e.serve(w, r, object)
		return
	}
	h.ServeHTTP(w, r)
}

var matches = sync.Pool{New: func() any { return new(mux.RouteMatch) }}

// targetMax bounds the part of an unknown path that the answer repeats.
const targetMax = 1024

// notFound answers requests that no route matches: the path has other methods (mux forgets that in subrouters), or
// none. A browser that asks for / gets the dashboard.
func (s *Server) notFound(h *httpCall) error {
	if allowed := s.allowed(h.r); len(allowed) > 0 {
		h.Header().Set("Allow", strings.Join(allowed, ", "))
		return fail(wrongMethod, "%[2]s does not allow the method %[1]s; use %[3]s", h.method, shown(h.pathText()), strings.Join(allowed, ", "))
	}
	if h.wantsDashboard() {
		http.Redirect(h, h.r, dashboard, http.StatusFound)
		return nil
	}
	return h.noSuchRoute()
}

// noSuchRoute refuses a call as the legacy broker does.
func (c *call) noSuchRoute() error {
	target := c.path
	if c.rawQuery != "" {
		target += "?" + c.rawQuery
	}
	if len(target) > targetMax {
		target = target[:targetMax]
	}
	return fail(noRoute, "Route %s:%s not found", c.method, strings.ToValidUTF8(target, ""))
}

// pathText returns the path as people read it.
func (c *call) pathText() string {
	if text, err := url.PathUnescape(c.path); err == nil {
		return text
	}
	return c.path
}

// knownMethods are the methods that a route can have, in the order of the Allow
// header.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// allowed returns the methods that the path of r has.
func (s *Server) allowed(r *http.Request) []string {
	var methods []string
	for _, m := range knownMethods {
		probe := *r
		probe.Method = m
		var match mux.RouteMatch
		if s.router.Match(&probe, &match) && match.MatchErr == nil {
			methods = append(methods, m)
		}
	}
	return methods
}

// checkParams refuses unknown query parameters under strict handling.
func (c *call) checkParams(given map[string][]string) error {
	if !c.strict {
		return nil
	}
	var unknown []string
	for name := range given {
		if !c.route.knows(name) {
			unknown = append(unknown, shown(name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	unknown = unknown[:min(len(unknown), unknownMax)]
	f := fail(unknownMember, "unknown query parameters: %s", strings.Join(unknown, ", "))
	f.members = unknown
	return f
}

var (
	readParams  = []string{v1.ParamConsistency, v1.ParamMinLSN, v1.ParamWaitMs}
	writeParams = []string{v1.ParamAck, v1.ParamAckWaitMs}
)

// knows reports whether the route uses a parameter.
func (rt *route) knows(name string) bool {
	common := readParams
	switch rt.at {
	case leaderOnly:
		common = writeParams
	case inMemory:
		common = nil
	case anyNode, upToDate:
	}
	return slices.Contains(common, name) || rt.past && name == v1.ParamAt || slices.Contains(rt.params, name)
}
