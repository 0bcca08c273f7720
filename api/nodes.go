package api

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/plane"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// Clients and nodes have ports of their own. Requests of clients lose the headers by which
// nodes mark what they forward. On the port for nodes a forwarded request keeps them: another
// node has already checked its Host, its origin and its size, and translated it.

// dropNodeHeaders removes the headers that only nodes may send.
func dropNodeHeaders(r *http.Request) {
	delete(r.Header, v1.HeaderForwarded)
	delete(r.Header, v1.HeaderPrincipal)
	delete(r.Header, v1.HeaderCertificate)
}

// outside returns the handler of the requests of clients.
func outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dropNodeHeaders(r)
		next.ServeHTTP(w, r)
	})
}

// nodeKey is the key of the *tls.ConnectionState of requests on a connection with the
// certificate of a node.
type nodeKey struct{}

func withNode(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, nodeKey{}, plane.StateOf(c))
}

// ServeNodes answers the requests of other nodes on ln, which it closes, until Shutdown. calls
// answers those that are not forwarded, under the prefix of their paths.
func (s *Server) ServeNodes(ln net.Listener, prefix string, calls http.Handler) error {
	forwarded := s.fromNodes()
	// http.ServeMux would redirect a path with the id ".." of a legacy client.
	s.nodes.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = stateOfNode(r) // net/http does not see it through the port
		if strings.HasPrefix(r.URL.Path, prefix) {
			calls.ServeHTTP(w, r)
			return
		}
		forwarded.ServeHTTP(w, r)
	})
	return s.nodes.Serve(ln)
}

// fromNodes returns the handler of forwarded requests.
func (s *Server) fromNodes() http.Handler {
	next := s.identified(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header[v1.HeaderForwarded]) == 0 {
			http.Error(w, "this port is for nodes; use the HTTP port", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// stateOfNode returns the state of a connection with the certificate of a node, or nil.
func stateOfNode(r *http.Request) *tls.ConnectionState {
	state, _ := r.Context().Value(nodeKey{}).(*tls.ConnectionState)
	return state
}

// principalOfNode returns the principal that another node has given to a request, or nil.
func (s *Server) principalOfNode(r *http.Request) *auth.Principal {
	id := r.Header.Get(v1.HeaderPrincipal)
	if stateOfNode(r) == nil || id == "" {
		return nil
	}
	if admin := auth.LocalAdmin(); id == admin.ID {
		return admin
	}
	return nil
}

// Guard returns the handler of a route that only callers with its right reach, if the server
// enforces tokens. It is for Config.Internal.
func (s *Server) Guard(r auth.Route) http.Handler {
	if r.Right&auth.Public != 0 {
		return r.Handler
	}
	return s.handler(&core.Route{Method: r.Method(), Path: r.Path(), At: core.AnyNode, Right: r.Right, Handle: over(func(h *httpCall) error {
		r.Handler(h, h.r)
		return nil
	})})
}

// The branches of a port that takes connections with and without TLS.
const (
	plainBranch = iota
	tlsBranch
	numBranches
)

// serveOn answers requests on ln until Shutdown.
func (s *Server) serveOn(ln net.Listener) error {
	switch {
	case s.Config.TLS == nil: // net/http sets that of s.http for a listener without TLS
		return s.http.Serve(ln)
	case !s.Config.PlainToo:
		return s.http.ServeTLS(limit.Handshakes(ln), "", "")
	}
	m := web.NewMux(ln, web.MuxConfig{Sort: byTLS, Branches: numBranches, Patience: s.Config.Timeouts.Header, Max: s.Config.MaxConnections})
	errs := make(chan error, numBranches)
	go func() { errs <- s.http.Serve(m.Branch(plainBranch)) }()
	go func() { errs <- s.http.ServeTLS(limit.Handshakes(m.Branch(tlsBranch)), "", "") }()
	err := <-errs
	_ = m.Close() // the listener may have failed already
	if late := <-errs; err == nil {
		err = late
	}
	return err
}

// byTLS sorts connections into those with TLS and those without.
func byTLS(_ context.Context, c *web.Conn) (int, net.Conn, error) {
	first, err := c.First()
	if first == web.TLSByte {
		return tlsBranch, c, err
	}
	return plainBranch, c, err
}
