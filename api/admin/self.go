package admin

import (
	"net/http"
	"slices"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// admin is about tokens, hooks, the audit log and the document.
type admin struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(core *core.Core) []core.Route {
	s := &admin{core}
	return slices.Concat(s.selfRoutes(), s.tokenRoutes(), s.hookRoutes(), s.auditRoutes(), s.stateRoutes())
}

func (s *admin) selfRoutes() []core.Route {
	return []core.Route{{Method: http.MethodGet, Path: v1.PathSelf, At: core.AnyNode, Handle: s.showSelf}}
}

// showSelf is GET /v1/self: the rights of the caller.
func (s *admin) showSelf(c *core.Call) error {
	p := c.Principal
	if p == nil { // no token is needed
		return c.SendJSON(v1.Self{Security: s.Access.InForce(), Rights: strings.Split(core.AnyRight.String(), ","), Programs: true})
	}
	self := v1.Self{
		Security: s.Access.InForce(), ID: p.ID, Role: p.Role.String(), Rights: strings.Split((p.Rights &^ auth.Public).String(), ","),
		Types: p.Types, Groups: p.Groups, Programs: p.Programs, Tenant: p.Tenant,
		ProgramTypes: s.Access.Programs, MaxJobs: p.MaxJobs, MaxBytes: p.MaxBytes,
	}
	if p.MaxJobs > 0 || p.MaxBytes > 0 {
		self.Jobs, self.Bytes = s.Node.AccountUsage(p.Account)
	}
	return c.SendJSON(self)
}
