package api

import (
	_ "embed"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"osqueue/api/admin"
	"osqueue/api/core"
	"osqueue/api/jobs"
	"osqueue/api/node"
	"osqueue/api/queues"
	"osqueue/api/work"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/auth"
)

// ServeHTTP answers one request. It only matches with the router: to serve through it would copy the request twice.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := matches.Get().(*mux.RouteMatch)
	if len(r.URL.Path) > pathMax { // to match it with each route would take long
		match.Handler = s.router.NotFoundHandler
	} else {
		s.router.Match(r, match) // if nothing matches, match has the handler for that
	}
	h := match.Handler
	*match = mux.RouteMatch{}
	matches.Put(match)
	h.ServeHTTP(w, r)
}

// notFound answers requests that no route matches: the path has other methods (mux forgets that in subrouters), or
// none. A browser that asks for / gets the dashboard.
func (s *Server) notFound(h *httpCall) error {
	if allowed := s.allowed(h.r); len(allowed) > 0 {
		h.Header().Set("Allow", strings.Join(allowed, ", "))
		return core.Fail(core.WrongMethod, "%[2]s does not allow the method %[1]s; use %[3]s", h.Method, core.Shown(h.PathText()), strings.Join(allowed, ", "))
	}
	if h.wantsDashboard() {
		http.Redirect(h, h.r, dashboard, http.StatusFound)
		return nil
	}
	return h.NoSuchRoute()
}

// allowed returns the methods that the path of r has.
func (s *Server) allowed(r *http.Request) []string {
	if len(r.URL.Path) > pathMax {
		return nil
	}
	var methods []string
	escaped := r.URL.EscapedPath()
	for _, m := range core.KnownMethods {
		of := m
		if m == http.MethodHead {
			of = http.MethodGet
		}
		if rt, _ := s.routeOf(of, escaped); rt != nil {
			methods = append(methods, m)
		}
	}
	return methods
}

// pathMax bounds a path that is matched, in bytes: the longest name in it may be escaped.
const pathMax = 3*core.PathIDMax + 256

var matches = sync.Pool{New: func() any { return new(mux.RouteMatch) }}

// buildRouter registers the routes. The router tries them in order, so the busy ones come first.
func (s *Server) buildRouter() {
	s.routes = slices.Concat(work.Routes(s.Core), jobs.Routes(s.Core), queues.Routes(s.Core), admin.Routes(s.Core), node.Routes(s.Core), s.httpRoutes())
	// A path without a variable comes before one that has a variable in its place: /v1/jobs/claim is no job. Only the
	// last segment decides, so that /v1/jobs/{id}/complete, which is busy, is not tried after all others.
	last := func(rt core.Route) int { return strings.Count(path.Base(rt.Path), "{") }
	slices.SortStableFunc(s.routes, func(a, b core.Route) int { return last(a) - last(b) })
	// An id may have an escaped slash, and the id .. of a legacy document is no path to clean.
	r := mux.NewRouter().UseEncodedPath().SkipClean(true)
	ofJobs := r.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return strings.HasPrefix(r.URL.Path, v1.PathJobs+"/") }).Subrouter()
	s.calls = make(map[string]*core.Route)
	for i := range s.routes {
		rt := &s.routes[i]
		if rt.Right == 0 {
			panic("api: " + rt.Method + " " + rt.Path + " declares no right")
		}
		methods := []string{rt.Method}
		if rt.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		in, e := r, s.handler(rt)
		if strings.HasPrefix(rt.Path, v1.PathJobs+"/") {
			in = ofJobs
		}
		in.MatcherFunc(e.matches).Methods(methods...).Handler(e)
		s.calls[rt.Method+" "+template(rt.Path)] = rt
	}
	for prefix, h := range s.Config.Internal {
		r.PathPrefix(prefix).Handler(s.exceptLegacy(prefix, h))
	}
	r.NotFoundHandler = s.handler(&core.Route{Path: "unknown", At: core.AnyNode, Right: auth.Public, Handle: over(s.notFound)})
	r.MethodNotAllowedHandler = r.NotFoundHandler
	s.router = r
}

// httpRoutes are the operations that need the request over HTTP.
func (s *Server) httpRoutes() []core.Route {
	metrics := promhttp.HandlerFor(s.Config.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return []core.Route{
		{
			Method: http.MethodGet, Path: v1.PathEvents, At: core.AnyNode, Right: auth.Read, Handle: over(s.events),
			Params: []string{v1.ParamType, v1.ParamJob, v1.ParamKind, v1.ParamLastEventID},
		},
		{Method: http.MethodGet, Path: v1.PathOpenAPI, At: core.AnyNode, Right: auth.Public, Handle: over(showOpenAPI)},
		{Method: http.MethodGet, Path: v1.PathMetrics, At: core.AnyNode, Right: auth.Read, Handle: over(func(h *httpCall) error {
			metrics.ServeHTTP(h, h.r)
			return nil
		})},
		// Each request in a stream needs its own right.
		{Method: http.MethodGet, Path: frame.Path, At: core.AnyNode, Right: auth.Enqueue | auth.Work | auth.Read, Handle: over(s.openStream)},
	}
}

// template returns the path of a route without the name of its variable.
func template(path string) string {
	before, rest, variable := strings.Cut(path, "{")
	if !variable {
		return path
	}
	_, after, _ := strings.Cut(rest, "}")
	return before + "{}" + after
}

// routeOf returns the route of a call that names a path outside of HTTP, and the value of the variable in the path.
func (s *Server) routeOf(method, path string) (rt *core.Route, object string) {
	if rt = s.calls[method+" "+path]; rt != nil && !strings.Contains(path, "{}") {
		return rt, ""
	}
	parts := strings.SplitN(path, "/", 5) // "", "v1", "jobs", id, rest
	if len(parts) < 4 || parts[3] == "" {
		return nil, ""
	}
	object, parts[3] = parts[3], "{}"
	return s.calls[method+" "+strings.Join(parts, "/")], object
}

// dashboard is the path of the dashboard, which is one of the internal handlers.
const dashboard = "/ui"

// wantsDashboard reports whether a browser asks for / of a node that has the dashboard. Others
// get 404, as the legacy broker answers.
func (h *httpCall) wantsDashboard() bool {
	return h.Core.Config.Internal[dashboard] != nil && h.r.URL.Path == "/" && (h.Method == http.MethodGet || h.Method == http.MethodHead) &&
		strings.Contains(h.r.Header.Get("Accept"), "text/html")
}

// openAPI is the description of the API. A server hands out its own, so that it
// is never that of another version.
//
//go:embed openapi.yaml
var openAPI []byte

// ClusterOpenAPI is the description of the requests under /cluster/v1/, which are not part of the
// API: package serve composes them.
//
//go:embed cluster.yaml
var ClusterOpenAPI []byte

// yamlType is the media type of YAML by RFC 9512.
var yamlType = []string{"application/yaml"}

var openAPILength = []string{strconv.Itoa(len(openAPI))}

// showOpenAPI is GET /openapi.yaml.
func showOpenAPI(h *httpCall) error {
	header := h.Header()
	header["Content-Type"], header["Content-Length"] = yamlType, openAPILength
	h.WriteHeader(http.StatusOK)
	_, _ = h.Write(openAPI) // the client may have gone
	return nil
}

// ServeClusterOpenAPI answers with ClusterOpenAPI.
func ServeClusterOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = yamlType
	_, _ = w.Write(ClusterOpenAPI) // the client may have gone
}
