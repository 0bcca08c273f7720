package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/repeats"
)

// The legacy listener serves clients that know neither TLS nor tokens. All of them are one
// principal, auth.Legacy, which may use the routes of the legacy contracts only, in every mode
// of SecurityConfig. Package osqueue and package dtq in compat answer most of these routes by
// calls of this API, with the context of the request: so the calls have the principal too.

// LegacyConfig configures ServeLegacy.
type LegacyConfig struct {
	// Networks are those from which connections are accepted.
	Networks []netip.Prefix
	// Types are globs of the types that the clients may use; none: all.
	Types []string
	// API is the address that refusals name to clients of this API.
	API string
}

// legacyRoutes are the routes that legacy clients may use themselves.
var legacyRoutes = []string{
	onPost(v1.PathJobs), onGet(v1.PathJobs), onPost(v1.PathClaim), onGet(v1.PathStats), onGet(v1.PathState), onGet(v1.PathThrottle),
	onPost(byID(v1.PathJobs) + "/" + v1.ActionComplete), onPost(byID(v1.PathJobs) + "/" + v1.ActionHeartbeat),
}

// legacyCalls are the routes that packages of compat call for them, in addition.
var legacyCalls = []string{
	onGet(byID(v1.PathJobs)), onPost(byID(v1.PathJobs) + "/" + v1.ActionForceComplete),
	onPost(v1.PathWorkers), onGet(byName(v1.PathWorkers)), onPost(v1.PathHeartbeat),
}

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
	told repeats.Filter
}

// Accept implements net.Listener.
func (l *allowedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := hostOf(c.RemoteAddr().String())
		if l.s.cfg.Legacy.accepts(from) {
			return c, nil
		}
		_ = c.Close() // nothing was read or written
		if skipped, due := l.told.Due(from); due {
			l.s.log.Warn("closed a connection of a legacy client: its network is not in --legacy-allow", "address", from, "again", skipped)
		}
	}
}

// accepts reports whether an address is in one of the networks.
func (l *LegacyConfig) accepts(address string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l.Networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// IsLegacy reports whether a request came over the legacy listener.
func IsLegacy(r *http.Request) bool {
	conn, _ := r.Context().Value(connKey{}).(*boundedConn)
	return conn != nil && conn.legacy
}

// legacyOf returns the principal of a request of a legacy client, or nil. The client is at this
// node, or at another one that has forwarded the request.
func (s *Server) legacyOf(r *http.Request) *auth.Principal {
	if s.legacy != nil && IsLegacy(r) {
		return s.legacy
	}
	given := r.Header[v1.HeaderPrincipal]
	if len(given) == 0 {
		return nil
	}
	p := auth.ParseLegacy(given[0])
	switch {
	case p == nil:
		return nil
	case s.access.Mode != SecurityOn || stateOfNode(r) != nil: // without the header the request could do more, or a node has proved itself
		return p
	}
	return s.legacy // nodes without certificates give no more than what this node gives to everybody
}

// authorizeLegacy is authorize of a server that asks for no credentials.
func (s *Core) authorizeLegacy(c *call) error {
	cred, _ := c.context().Value(credentialKey{}).(*credential)
	if cred == nil || cred.p == nil || cred.p.Kind != auth.KindLegacy {
		return nil
	}
	c.principal = cred.p
	return s.checkLegacy(c)
}

// checkLegacy refuses the routes that are not for legacy clients.
func (s *Core) checkLegacy(c *call) error {
	name := c.route.method + " " + c.route.path
	switch {
	case c.route.right&auth.Public != 0, slices.Contains(legacyRoutes, name):
		return nil
	case slices.Contains(legacyCalls, name) && (c.inner || !c.legacy): // another node has checked its client
		return nil
	case name == onGet(byID(v1.PathJobs)): // also the paths of other methods, such as /v1/jobs/claim
		return c.noSuchRoute()
	}
	return s.notLegacy(c)
}

// notLegacy refuses a request of a legacy client to other routes.
func (s *Core) notLegacy(c *call) error {
	where := ""
	if s.cfg.Legacy != nil && c.legacy {
		where = "; use the API at " + s.cfg.Legacy.API
	}
	return fail(forbidden, "this address serves only the routes of legacy clients, and %s is not one of them%s", shown(c.pathText()), where)
}

// exceptLegacy returns a handler of the paths with a prefix that legacy clients do not reach.
func (s *Server) exceptLegacy(prefix string, next http.Handler) http.Handler {
	if s.cfg.Legacy == nil {
		return next
	}
	refuse := s.handler(&route{path: prefix, at: anyNode, right: auth.Public, handle: s.notLegacy})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if IsLegacy(r) {
			refuse.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withLegacy returns the request with the principal of legacy clients.
func withLegacy(r *http.Request, p *auth.Principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), credentialKey{}, &credential{p: p}))
}

// forLegacy returns a document as legacy clients may see it: without the hashes of tokens. A
// large document, whose entries may have them, has no jobs and is refused.
func forLegacy(doc []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(doc), lenient)
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out, jobs := []byte{'{'}, false
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		member := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		jobs = jobs || member == "jobs"
		if member == "tokens" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if out, err = jsontext.AppendQuote(out, member); err != nil {
			return nil, err
		}
		out = append(append(out, ':'), value...)
	}
	if !jobs {
		return nil, fail(forbidden, "the queue is too large for one document, and legacy clients cannot read its log")
	}
	return append(out, '}'), nil
}
