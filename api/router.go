package api

import (
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/mux"

	"osqueue/api/core"
)

// ServeHTTP answers one request. It only matches with the router: to serve through it would copy the request twice.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := matches.Get().(*mux.RouteMatch)
	if len(r.URL.Path) > pathMax { // to match it with each route would take long
		match.Handler = s.router.NotFoundHandler
	} else {
		s.router.Match(r, match) // if nothing matches, match has the handler for that
	}
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
	path := r.URL.EscapedPath()
	for _, m := range core.KnownMethods {
		of := m
		if m == http.MethodHead {
			of = http.MethodGet
		}
		if rt, _ := s.routeOf(of, path); rt != nil {
			methods = append(methods, m)
		}
	}
	return methods
}

// pathMax bounds a path that is matched, in bytes: the longest name in it may be escaped.
const pathMax = 3*core.PathIDMax + 256

var matches = sync.Pool{New: func() any { return new(mux.RouteMatch) }}
