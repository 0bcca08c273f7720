package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/membership"
)

// notAllowed is the refusal of a change of the members.
var notAllowed = core.Kind{Status: http.StatusConflict, Tag: v1.TagMembers, Title: "The members do not allow this"}

// listMembers is GET /v1/members.
func (s *admin) listMembers(c *core.Call) error {
	return c.SendJSON(v1.MemberList{Members: s.members()})
}

// members returns the members as this node, the leader, sees them, by name.
func (s *admin) members() []v1.Member {
	st := s.Node.Status()
	out := []v1.Member{}
	for _, p := range st.Peers {
		out = append(out, memberOf(&p, st.CommitIndex))
	}
	if s.Config.Members != nil {
		for _, a := range s.Config.Members.Waiting() {
			out = append(out, v1.Member{Name: a.Name, State: "admitted", HTTPAddress: a.HTTP})
		}
	}
	slices.SortFunc(out, func(a, b v1.Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func memberOf(p *cluster.Peer, commit uint64) v1.Member {
	m := v1.Member{
		Name: p.Name, State: "joining", Leader: p.Leader, ServerID: p.ServerID, HTTPAddress: p.HTTPAddress, RaftAddress: p.RaftAddress,
		LastContactMs: p.LastContact, Version: p.Version, Level: p.KnownLevel,
	}
	switch {
	case p.Voter:
		m.State = "voter"
	case p.NonVoter:
		m.State = "nonVoter"
	}
	if p.LogIndex != nil {
		lag := commit - min(commit, *p.LogIndex)
		m.Lag = &lag
	}
	return m
}

// addMember is POST /v1/members.
func (s *admin) addMember(c *core.Call, in *v1.NewMember) error {
	return s.change(c, func(ctx context.Context, m core.Members) (string, error) {
		return m.Add(ctx, in.Name, in.Address, in.NonVoter)
	})
}

// removeMember is DELETE /v1/members/{name}.
func (s *admin) removeMember(c *core.Call) error {
	force := c.Params.Get(v1.ParamForce)
	if force != "" && force != "true" && force != "false" {
		return core.Bad(v1.ParamForce, "is %q; must be true or false", core.Shown(force))
	}
	return s.change(c, func(ctx context.Context, m core.Members) (string, error) {
		return m.Remove(ctx, c.Name, force == "true")
	})
}

// changeMember returns the handler of a change of the member in the path.
func (s *admin) changeMember(do func(core.Members, context.Context, string) (string, error)) func(*core.Call) error {
	return func(c *core.Call) error {
		return s.change(c, func(ctx context.Context, m core.Members) (string, error) { return do(m, ctx, c.Name) })
	}
}

// lead gives the leadership to a node; "-" is any.
func lead(m core.Members, ctx context.Context, name string) (string, error) {
	if name == "-" {
		name = ""
	}
	to, err := m.Transfer(ctx, name)
	return "node " + to + " leads", err
}

// changeTimeout bounds a change of the members.
const changeTimeout = 10 * time.Second

// change makes a change and answers with the members that it leads to.
func (s *admin) change(c *core.Call, do func(context.Context, core.Members) (string, error)) error {
	if s.Config.Members == nil {
		return core.Fail(notAllowed, "this server has no members")
	}
	ctx, cancel := context.WithTimeout(c.Context(), changeTimeout)
	defer cancel()
	done, err := do(ctx, s.Config.Members)
	var refused *membership.Refusal
	switch {
	case errors.As(err, &refused) && refused.Missing:
		return core.NotThere("member", refused.Error())
	case refused != nil:
		return core.Fail(notAllowed, "%v", refused)
	case err != nil:
		return err
	}
	var peers []string
	for _, m := range s.members() {
		if m.HTTPAddress != "" {
			peers = append(peers, m.Name+"="+m.HTTPAddress)
		}
	}
	c.Lsn = s.Node.View().LSN()
	return c.SendJSON(v1.MemberChanged{Done: done, Peers: strings.Join(peers, ",")})
}
