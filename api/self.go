package api

import (
	"net/http"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// admin is about tokens, hooks, the audit log and the document.
type admin struct{ *Core }

// adminRoutes returns the operations of the package.
func adminRoutes(core *Core) []route {
	s := &admin{core}
	return slices.Concat(s.selfRoutes(), s.tokenRoutes(), s.hookRoutes(), s.auditRoutes(), s.stateRoutes())
}

// anyRight are the rights of which each role has at least one.
const anyRight = auth.Enqueue | auth.Work | auth.Follow | auth.Read | auth.Manage | auth.Admin | auth.Hooks

func (s *admin) selfRoutes() []route {
	return []route{{method: http.MethodGet, path: v1.PathSelf, at: anyNode, handle: s.showSelf}}
}

// showSelf is GET /v1/self: the rights of the caller.
func (s *admin) showSelf(c *call) error {
	p := c.principal
	if p == nil { // no token is needed
		return c.sendJSON(v1.Self{Security: s.access.mode(), Rights: strings.Split(anyRight.String(), ","), Programs: true})
	}
	self := v1.Self{
		Security: s.access.mode(), ID: p.ID, Role: p.Role.String(), Rights: strings.Split((p.Rights &^ auth.Public).String(), ","),
		Types: p.Types, Groups: p.Groups, Programs: p.Programs, Tenant: p.Tenant,
		ProgramTypes: s.access.Programs, MaxJobs: p.MaxJobs, MaxBytes: p.MaxBytes,
	}
	if p.MaxJobs > 0 || p.MaxBytes > 0 {
		self.Jobs, self.Bytes = s.b.AccountUsage(p.Account)
	}
	return c.sendJSON(self)
}

// mode returns the mode of the checks.
func (a *access) mode() string {
	if a.off() {
		return SecurityOff
	}
	return a.Mode
}
