package cluster

import "net/http"

// PeerHandler serves the requests of other nodes, under PeerPath.
func (n *Node) PeerHandler() http.Handler {
	mux := http.NewServeMux()
	n.members.Serve(mux)
	return mux
}

// OperatorHandler serves the requests of operators under PeerPath. Its caller checks that they
// are admins.
func (n *Node) OperatorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ClockPath, n.serveSetClock)
	mux.HandleFunc("POST "+RevokePath, n.serveRevoke)
	return mux
}
