package api

import (
	_ "embed"
	"net/http"
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

// ServeHTTP answers one request. It only matches with the router, whose ServeHTTP would copy the request twice.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, object, second := s.match(r)
	if e, ok := h.(*endpoint); ok {
		e.serve(w, r, object, second)
		return
	}
	h.ServeHTTP(w, r)
}

var matches = sync.Pool{New: func() any { return &mux.RouteMatch{Vars: make(map[string]string)} }}

// match returns the handler of a request and the variables in its path, escaped.
func (s *Server) match(r *http.Request) (h http.Handler, object, second string) {
	m := matches.Get().(*mux.RouteMatch)
	s.router.Match(r, m) // if nothing matches, m has the handler for that
	h = m.Handler
	if e, ok := h.(*endpoint); ok {
		object, second = m.Vars[e.variable], m.Vars[e.second]
	}
	clear(m.Vars)
	*m = mux.RouteMatch{Vars: m.Vars}
	matches.Put(m)
	return h, object, second
}

// routeOf returns the route of a request, or nil, and the variables in its path, escaped.
func (s *Server) routeOf(r *http.Request) (rt *core.Route, object, second string) {
	h, object, second := s.match(r)
	if e, ok := h.(*endpoint); ok && e.route.Method != "" {
		return e.route, object, second
	}
	return nil, "", ""
}

// wrongMethod answers requests whose path has other methods.
func (s *Server) wrongMethod(h *httpCall) error {
	var methods []string
	r := *h.r
	for _, r.Method = range core.KnownMethods {
		if rt, _, _ := s.routeOf(&r); rt != nil {
			methods = append(methods, r.Method)
		}
	}
	allowed := strings.Join(methods, ", ")
	h.Header().Set("Allow", allowed)
	return core.Fail(core.WrongMethod, "%[2]s does not allow the method %[1]s; use %[3]s", h.Method, core.Shown(h.PathText()), allowed)
}

// pathMax bounds a path that is matched, in bytes: the longest name in it may be escaped.
const pathMax = 3*core.PathIDMax + 256

// buildRouter registers the routes, in a subrouter for each subject and action. The busy ones come first.
func (s *Server) buildRouter() {
	s.routes = slices.Concat(work.Routes(s.Core), jobs.Routes(s.Core), queues.Routes(s.Core), admin.Routes(s.Core), node.Routes(s.Core), s.httpRoutes())
	r := mux.NewRouter()
	r.NotFoundHandler = s.handler(&core.Route{Path: "unknown", At: core.AnyNode, Right: auth.Public, Handle: (*core.Call).NoSuchRoute})
	r.MethodNotAllowedHandler = s.handler(&core.Route{Path: "unknown", At: core.AnyNode, Right: auth.Public, Handle: over(s.wrongMethod)})
	r.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return len(r.URL.Path) > pathMax }).Handler(r.NotFoundHandler)
	busy, subjects := r.NewRoute().Subrouter(), make(map[string]*mux.Router)
	for i := range s.routes {
		rt := &s.routes[i]
		if rt.Right == 0 {
			panic("api: " + rt.Method + " " + rt.Path + " declares no right")
		}
		methods := []string{rt.Method}
		if rt.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		if rt.Busy {
			busy.MatcherFunc(plain(rt.Path)).Methods(methods...).Handler(s.handler(rt))
			continue
		}
		fixed, _, _ := strings.Cut(rt.Path, "/{")
		parts := strings.SplitN(fixed, "/", 4) // "", "v1", "jobs", rest
		prefix := strings.Join(parts[:min(len(parts), 3)], "/")
		after := rt.Path[strings.LastIndexByte(rt.Path, '}')+1:] // the whole path if it has no variable
		if subjects[prefix+after] == nil {
			subjects[prefix+after] = between(r, prefix, after)
		}
		subjects[prefix+after].Path(rt.Path).Methods(methods...).Handler(s.handler(rt))
	}
	r.MatcherFunc(s.wantsDashboard).Handler(http.RedirectHandler(dashboard, http.StatusFound))
	internal := r.NewRoute().Subrouter()
	internal.Use(s.exceptLegacy())
	for prefix, h := range s.Config.Internal {
		internal.PathPrefix(prefix).Handler(h)
	}
	s.router = r
}

// between returns the router for the paths of r with a prefix and an end. A Subrouter of mux compares the prefix again for
// each route, by a regular expression, and then forgets that a path has other methods. The end spares a long path all
// expressions but two.
func between(r *mux.Router, prefix, after string) *mux.Router {
	sub := mux.NewRouter().UseEncodedPath() // an id may have an escaped slash
	r.MatcherFunc(func(r *http.Request, m *mux.RouteMatch) bool {
		return strings.HasPrefix(r.URL.Path, prefix) && strings.HasSuffix(r.URL.Path, after) && sub.Match(r, m)
	})
	return sub
}

// plain matches the path of a busy route as Path of mux does, but without a regular expression, which takes as long as a
// third of a completion.
func plain(path string) mux.MatcherFunc {
	before, rest, variable := strings.Cut(path, "{")
	name, after, _ := strings.Cut(rest, "}")
	return func(r *http.Request, m *mux.RouteMatch) bool {
		if !strings.HasPrefix(r.URL.Path, before) || !strings.HasSuffix(r.URL.Path, after) {
			return false
		}
		object, begins := strings.CutPrefix(r.URL.EscapedPath(), before)
		object, ends := strings.CutSuffix(object, after)
		if !begins || !ends || variable != (object != "") || strings.Contains(object, "/") {
			return false
		}
		m.Vars[name] = object
		return true
	}
}

// httpRoutes are the operations that need the request over HTTP.
func (s *Server) httpRoutes() []core.Route {
	metrics := promhttp.HandlerFor(s.Config.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return []core.Route{
		{
			Method: http.MethodGet, Path: v1.PathEvents, At: core.AnyNode, Right: auth.Read, Handle: over(s.events),
			Params: []string{v1.ParamType, v1.ParamJob, v1.ParamKind, v1.ParamLastEventID},
		},
		{Method: http.MethodGet, Path: core.ByName(v1.PathLinks), At: core.AnyNode, Right: auth.Public, Handle: over(s.showLink)},
		{
			Method: http.MethodPut, Path: core.ByID(v1.PathArtefacts), At: core.AnyNode, Right: auth.Enqueue | auth.Work, Handle: over(s.upload),
			Params: []string{v1.ParamMinLSN, v1.ParamWaitMs},
		},
		{
			Method: http.MethodGet, Path: core.PathArtefact, At: core.AnyNode, Right: auth.Follow | auth.Read, Handle: over(s.download),
			Params: []string{v1.ParamMinLSN, v1.ParamWaitMs},
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

// dashboard is the path of the dashboard, which is one of the internal handlers.
const dashboard = "/ui"

// wantsDashboard reports whether a browser asks for / of a node that has the dashboard. Others
// get 404, as the legacy broker answers.
func (s *Server) wantsDashboard(r *http.Request, _ *mux.RouteMatch) bool {
	return s.Config.Internal[dashboard] != nil && r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
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
