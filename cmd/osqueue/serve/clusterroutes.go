package serve

import (
	"net/http"
	"sync"

	"osqueue/api"
	"osqueue/cluster"
	"osqueue/internal/auth"
)

// clusterRoutes returns the requests under cluster.PeerPath. api.ClusterOpenAPI describes them.
func (s *server) clusterRoutes() []auth.Route {
	routes := append(s.node.Routes(), auth.Route{
		Pattern: "GET " + cluster.PeerPath + "openapi.yaml", Right: auth.Public, Handler: api.ServeClusterOpenAPI,
	})
	if s.enroll != nil {
		routes = append(routes, s.enroll.Routes()...)
	}
	return routes
}

// peerHandler returns the handler of cluster.PeerPath at the port for nodes.
func (s *server) peerHandler() http.Handler { return auth.Mux(s.clusterRoutes(), auth.Node, nil) }

// clientClusterHandler returns the handler of cluster.PeerPath at the HTTP port: the requests of
// operators.
func (s *server) clientClusterHandler() http.Handler {
	calls := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "nodes call each other at the raft port", http.StatusNotFound)
	})
	mux := sync.OnceValue(func() http.Handler { // s.api is made later
		mux := auth.Mux(s.clusterRoutes(), ^auth.Node, s.api.Guard)
		for _, r := range s.node.Routes() {
			if r.Right == auth.Node {
				mux.Handle(r.Pattern, calls)
			}
		}
		return mux
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux().ServeHTTP(w, r) })
}
