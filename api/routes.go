package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"osqueue/api/admin"
	"osqueue/api/core"
	"osqueue/api/jobs"
	"osqueue/api/node"
	"osqueue/api/queues"
	"osqueue/api/work"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// buildRouter registers the routes. The router tries them in order, so the busy ones come first.
func (s *Server) buildRouter() {
	s.routes = slices.Concat(work.Routes(s.Core), jobs.Routes(s.Core), queues.Routes(s.Core), admin.Routes(s.Core), node.Routes(s.Core),
		s.eventRoutes(), s.openAPIRoutes(), s.streamRoutes())
	// A path without a variable comes before one that has a variable in its place: /v1/jobs/claim is no job.
	slices.SortStableFunc(s.routes, func(a, b core.Route) int { return strings.Count(a.Path, "{") - strings.Count(b.Path, "{") })
	// An id may have an escaped slash, and the id .. of a legacy document is no path to clean.
	r := mux.NewRouter().UseEncodedPath().SkipClean(true)
	ofJobs := r.PathPrefix(v1.PathJobs).Subrouter()
	s.calls = make(map[string]*core.Route)
	for i := range s.routes {
		rt := &s.routes[i]
		rt.Right = core.RightOf(rt)
		methods := []string{rt.Method}
		if rt.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		if rest, ok := strings.CutPrefix(rt.Path, v1.PathJobs); ok && rest != "" {
			ofJobs.Path(rest).Methods(methods...).Handler(s.handler(rt))
		} else {
			r.Path(rt.Path).Methods(methods...).Handler(s.handler(rt))
		}
		s.calls[rt.Method+" "+template(rt.Path)] = rt
	}
	for prefix, h := range s.Config.Internal {
		r.PathPrefix(prefix).Handler(s.exceptLegacy(prefix, h))
	}
	r.NotFoundHandler = s.handler(&core.Route{Path: "unknown", At: core.AnyNode, Right: auth.Public, Handle: over(s.notFound)})
	r.MethodNotAllowedHandler = r.NotFoundHandler
	s.router = r
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
