package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/gorilla/mux"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// ServeLegacy answers legacy clients on ln, which it closes, until Shutdown. It returns nil as
// soon as Shutdown begins, or an error if ln fails. Config.Legacy must be set.
func (s *Server) ServeLegacy(ln net.Listener) error {
	err := s.http.Serve(&boundedListener{Listener: &allowedListener{Listener: ln, s: s}, s: s, legacy: true})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve legacy clients on %s: %w", ln.Addr(), err)
}

// allowedListener closes the connections of other networks than those of LegacyConfig.
type allowedListener struct {
	net.Listener
	s    *Server
	told limit.Repeats
}

// Accept implements net.Listener.
func (l *allowedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := web.HostOf(c.RemoteAddr().String())
		if l.s.Config.Legacy.Accepts(from) {
			return c, nil
		}
		_ = c.Close() // nothing was read or written
		if skipped, due := l.told.Due(from); due {
			l.s.Log.Warn("closed a connection of a legacy client: its network is not in --legacy-allow", "address", from, "again", skipped)
		}
	}
}

// IsLegacy reports whether a request came over the legacy listener.
func IsLegacy(r *http.Request) bool {
	conn, _ := r.Context().Value(connKey{}).(*boundedConn)
	return conn != nil && conn.legacy
}

// legacyOf returns the principal of a request of a legacy client, or nil. The client is at this
// node, or at another one that has forwarded the request.
func (s *Server) legacyOf(r *http.Request) *auth.Principal {
	if s.Legacy != nil && IsLegacy(r) {
		return s.Legacy
	}
	given := r.Header[v1.HeaderPrincipal]
	if len(given) == 0 {
		return nil
	}
	p := auth.ParseLegacy(given[0])
	switch {
	case p == nil:
		return nil
	case s.Access.Mode != core.SecurityOn || stateOfNode(r) != nil: // without the header the request could do more, or a node has proved itself
		return p
	}
	return s.Legacy // nodes without certificates give no more than what this node gives to everybody
}

// exceptLegacy keeps legacy clients away from the handlers that are not part of the API.
func (s *Server) exceptLegacy() mux.MiddlewareFunc {
	refuse := s.handler(&core.Route{Path: "internal", At: core.AnyNode, Right: auth.Public, Handle: s.NotLegacy})
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if IsLegacy(r) {
				refuse.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// withLegacy returns the request with the principal of legacy clients.
func withLegacy(r *http.Request, p *auth.Principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), core.CredentialKey{}, &core.Credential{P: p}))
}
