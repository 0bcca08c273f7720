package api

import (
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"osqueue/internal/auth"
)

// buildRouter registers the routes. The router tries them in order: routes without a variable
// first, because one comparison decides, then the busy ones.
func (s *Server) buildRouter() {
	s.routes = slices.Concat(s.reportRoutes(), s.jobRoutes(), s.logRoutes(), s.workerRoutes(), s.claimRoutes(), s.enqueueRoutes(),
		s.changeRoutes(), s.batchRoutes(), s.cronRoutes(), s.eventRoutes(),
		s.reportBatchRoutes(), s.queueRoutes(), s.stateRoutes(), s.historyRoutes(), s.pastRoutes(), s.countRoutes(), s.lsnRoutes(), s.nodeRoutes(), s.openAPIRoutes(),
		s.streamRoutes(), s.tokenRoutes(), s.hookRoutes(), s.selfRoutes(), s.auditRoutes())
	for i := range s.routes {
		s.routes[i].pattern = compile(s.routes[i].path)
		s.routes[i].right = rightOf(&s.routes[i])
	}
	slices.SortStableFunc(s.routes, func(a, b route) int { return variables(&a) - variables(&b) })
	r := mux.NewRouter()
	handlers := make([]http.Handler, len(s.routes))
	for i := range s.routes {
		rt := &s.routes[i]
		methods := []string{rt.method}
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		handlers[i] = s.handler(rt)
		r.MatcherFunc(rt.pattern.match).Methods(methods...).Handler(handlers[i])
	}
	s.indexWrites(handlers)
	for prefix, h := range s.cfg.Internal {
		r.PathPrefix(prefix).Handler(s.exceptLegacy(prefix, h))
	}
	r.NotFoundHandler = s.handler(&route{path: "unknown", at: anyNode, right: auth.Public, handle: noSuchRoute})
	r.MethodNotAllowedHandler = s.handler(&route{path: "unknown", at: anyNode, right: auth.Public, handle: s.noSuchMethod})
	s.router = r
}
