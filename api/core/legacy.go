package core

import (
	"net/http"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// The legacy listener serves clients that know neither TLS nor tokens. All of them are one
// principal, auth.Legacy, which may use the routes of the legacy contracts only, in every mode
// of SecurityConfig. Package osqueue and package dtq in compat answer most of these routes by
// calls of this API, with the context of the request: so the calls have the principal too.

// authorizeLegacy is authorize of a server that asks for no credentials.
func (s *Core) authorizeLegacy(c *Call) error {
	cred, _ := c.Context().Value(CredentialKey{}).(*Credential)
	if cred == nil || cred.P == nil || cred.P.Kind != auth.KindLegacy {
		return nil
	}
	c.Principal = cred.P
	return s.checkLegacy(c)
}

// checkLegacy refuses the routes that are not for legacy clients.
func (s *Core) checkLegacy(c *Call) error {
	switch {
	case c.Route.Right&auth.Public != 0, c.Route.Legacy == ByLegacy:
		return nil
	case c.Route.Legacy == ByCompat && (c.Inner || !c.Legacy): // another node has checked its client
		return nil
	case c.Route.Method == http.MethodGet && c.Route.Path == ByID(v1.PathJobs): // also the paths of other methods, such as /v1/jobs/claim
		return c.NoSuchRoute()
	}
	return s.NotLegacy(c)
}

// NotLegacy refuses a request of a legacy client to other routes.
func (s *Core) NotLegacy(c *Call) error {
	where := ""
	if s.Config.Legacy != nil && c.Legacy {
		where = "; use the API at " + s.Config.Legacy.API
	}
	return Fail(Forbidden, "this address serves only the routes of legacy clients, and %s is not one of them%s", Shown(c.PathText()), where)
}
