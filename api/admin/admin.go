// Package admin is about members, tokens, hooks, the audit log and the document. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package admin

import (
	"net/http"
	"strconv"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

// admin is about members, tokens, hooks, the audit log and the document.
type admin struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(c *core.Core) []core.Route {
	s, token, hook := &admin{c}, core.ByID(v1.PathTokens), core.ByName(v1.PathHooks)
	member := core.ByName(v1.PathMembers)
	const get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	return []core.Route{
		{Method: get, Path: v1.PathSelf, At: core.AnyNode, Right: core.AnyRight, Handle: s.showSelf},
		{Method: get, Path: v1.PathAudit, At: core.AnyNode, Right: auth.Admin, Handle: s.showAudit, Params: []string{v1.ParamCursor, v1.ParamLimit}},

		{Method: get, Path: v1.PathMembers, At: core.InMemory, Right: auth.Read, Handle: s.listMembers},
		{Method: post, Path: v1.PathMembers, At: core.LeaderOnly, Right: auth.Admin, Handle: core.With(s.addMember)},
		{Method: del, Path: member, At: core.LeaderOnly, Right: auth.Admin, Handle: s.removeMember, Params: []string{v1.ParamForce}},
		{Method: post, Path: member + "/" + v1.ActionPromote, At: core.LeaderOnly, Right: auth.Admin, Handle: s.changeMember(core.Members.Promote)},
		{Method: post, Path: member + "/" + v1.ActionDemote, At: core.LeaderOnly, Right: auth.Admin, Handle: s.changeMember(core.Members.Demote)},
		{Method: post, Path: member + "/" + v1.ActionLead, At: core.LeaderOnly, Right: auth.Admin, Handle: s.changeMember(lead)},

		{Method: post, Path: v1.PathTokens, At: core.LeaderOnly, Right: auth.Admin, Handle: core.With(s.createToken)},
		{Method: get, Path: v1.PathTokens, At: core.UpToDate, Right: auth.Admin, Handle: s.listTokens},
		{Method: del, Path: token, At: core.LeaderOnly, Right: auth.Admin, Handle: s.revokeToken, Params: []string{v1.ParamOverlapMs}},
		{Method: post, Path: token + "/" + v1.ActionRotate, At: core.LeaderOnly, Right: auth.Admin, Handle: core.With(s.rotateToken)},

		// The URL of a hook may be a secret itself.
		{Method: get, Path: v1.PathHooks, At: core.UpToDate, Right: auth.Hooks, Handle: s.listHooks},
		{Method: get, Path: hook, At: core.UpToDate, Right: auth.Hooks, Handle: s.showHook},
		{Method: put, Path: hook, At: core.LeaderOnly, Right: auth.Hooks, Handle: core.With(s.putHook)},
		{Method: del, Path: hook, At: core.LeaderOnly, Right: auth.Hooks, Handle: s.deleteHook},
		{Method: post, Path: hook + "/" + v1.ActionTest, At: core.LeaderOnly, Right: auth.Hooks, Handle: s.testHook},
		{Method: get, Path: hook + "/" + v1.ActionDeliveries, At: core.UpToDate, Right: auth.Hooks, Handle: s.hookDeliveries},

		{Method: get, Path: v1.PathStats, At: core.UpToDate, Right: auth.Read, Past: true, Legacy: core.ByLegacy, Handle: s.showStats, Params: []string{v1.ParamTypes}},
		{Method: get, Path: v1.PathState, At: core.UpToDate, Right: auth.Admin, Legacy: core.ByLegacy, Handle: s.showState}, // with the hashes of the tokens
		{Method: get, Path: v1.PathThrottle, At: core.UpToDate, Right: auth.Read, Legacy: core.ByLegacy, Handle: s.showThrottle},
	}
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

// auditPage is the largest and the default number of entries of an answer.
const auditPage = 1000

// showAudit is GET /v1/audit.
func (s *admin) showAudit(c *core.Call) error {
	limit := auditPage
	var err error
	if given := c.Params.Get(v1.ParamLimit); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > auditPage {
			return core.Fail(core.BadRequest, "%s is %q; must be a number from 1 to %d", v1.ParamLimit, core.Shown(given), auditPage)
		}
	}
	out, err := s.Audited.Page(c.Params.Get(v1.ParamCursor), limit)
	if err != nil {
		return err
	}
	out.Node = s.Name
	return c.SendJSON(out)
}
