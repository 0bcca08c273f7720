package cluster

import (
	"net/http"

	"osqueue/internal/auth"
)

// Routes returns the requests under PeerPath, of other nodes and of operators, and the rights that
// they need, which their handlers do not check.
func (n *Node) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET " + PeerPath + "identity", Right: auth.Node, Handler: n.members.ServeIdentity},
		{Pattern: "POST " + PeerPath + "join", Right: auth.Node, Handler: n.members.ServeJoin},
		{Pattern: "GET " + PeerPath + "history/{term}/{index}", Right: auth.Node, Handler: n.members.ServeHistory},
		{Pattern: "POST " + bucketPath, Right: auth.Node, Handler: n.serveBucket},
		{Pattern: "POST " + RevokePath, Right: auth.Admin, Handler: n.serveRevoke},
	}
}

// PeerHandler serves the requests of other nodes, under PeerPath.
func (n *Node) PeerHandler() http.Handler { return auth.Mux(n.Routes(), auth.Node, nil) }
