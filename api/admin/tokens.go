package admin

import (
	"math"
	"strconv"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/internal/auth"
)

// createToken is POST /v1/tokens. The answer has the secret, which nothing keeps.
func (s *admin) createToken(c *core.Call, in *v1.NewToken) error {
	t, err := s.readNewToken(in)
	if err != nil {
		return err
	}
	return s.addToken(c, t, nil)
}

func (s *admin) readNewToken(in *v1.NewToken) (*fsmpb.Token, error) {
	role, ok := fsm.ParseRole(in.Role)
	switch {
	case !ok || role == fsm.RoleMark:
		return nil, core.Bad("role", "is %q; must be producer, worker, reader, operator or admin", core.Shown(in.Role))
	case math.IsNaN(in.RatePerSecond) || in.RatePerSecond < 0 || in.RatePerSecond > core.RateMax:
		return nil, core.Bad("ratePerSecond", "is %v; must be at most %d", in.RatePerSecond, int(core.RateMax))
	case in.Burst < 0 || in.Burst > core.BurstMax:
		return nil, core.Bad("burst", "is %d; must be at most %d", in.Burst, int(core.BurstMax))
	case min(in.MaxPayload, in.MaxJobs, in.MaxBytes) < 0:
		return nil, core.Fail(core.BadRequest, "maxPayload is %d, maxJobs %d and maxBytes %d; must not be negative", in.MaxPayload, in.MaxJobs, in.MaxBytes)
	case in.Tenant != "" && (!tenants.Valid(in.Tenant) || len(in.Types)+len(in.Groups) == 0):
		return nil, core.Bad("tenant", "is %q; must have at most %d bytes and no slash, and needs types or groups", core.Shown(in.Tenant), tenants.Max)
	case len(in.Types) > tokenScopes:
		return nil, core.Bad("types", "has %d items; at most %d are allowed", len(in.Types), tokenScopes)
	case len(in.Groups) > tokenScopes:
		return nil, core.Bad("groups", "has %d items; at most %d are allowed", len(in.Groups), tokenScopes)
	}
	l := &s.Config.Limits
	for where, names := range map[string][]string{"name": {in.Name}, "types": in.Types, "groups": in.Groups} {
		if err := l.CheckNewNames(where, names); err != nil {
			return nil, err
		}
	}
	if err := auth.CheckGlobs(append(in.Types[:len(in.Types):len(in.Types)], in.Groups...)); err != nil {
		return nil, core.Fail(core.BadRequest, "%v", err)
	}
	t := &fsmpb.Token{
		Name: in.Name, Role: uint32(role), Types: in.Types, Groups: in.Groups, Programs: in.Programs,
		RateMilli: int64(math.Ceil(in.RatePerSecond * 1000)), Burst: in.Burst, MaxPayload: in.MaxPayload,
		MaxJobs: in.MaxJobs, MaxBytes: in.MaxBytes, Tenant: in.Tenant,
	}
	return t, s.setExpiry(t, in.TTLMs)
}

// tokenScopes is the largest number of patterns of a token.
const tokenScopes = 64

func (s *admin) setExpiry(t *fsmpb.Token, ttlMs int64) error {
	if err := core.CheckMs("ttlMs", ttlMs, s.Config.Limits.Delay); err != nil {
		return err
	}
	if ttlMs > 0 {
		t.ExpiresMs = s.Node.Now() + ttlMs
	}
	return nil
}

// addToken commits a new token, and in the same entry the end of the one that it replaces.
func (s *admin) addToken(c *core.Call, t *fsmpb.Token, end *fsmpb.RevokeToken) error {
	if c.Key != "" {
		return core.Fail(core.BadRequest, "leave out the idempotency key: only the first answer has the secret of a token")
	}
	secret := auth.New()
	t.Id, t.Hash, t.MadeBy = secret.ID, []byte(secret.Hash), maker(c)
	create := &fsmpb.CreateToken{Token: t}
	if end != nil {
		create.Replaces, create.OverlapMs = end.Id, end.OverlapMs
	}
	if err := s.proposeToken(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: create}}); err != nil {
		return err
	}
	return c.SendJSON(v1.TokenCreated{ID: secret.ID, Token: secret.Text, LSN: c.Lsn.String()})
}

// maker returns who makes an object, for lists.
func maker(c *core.Call) string {
	if c.Principal == nil {
		return "anonymous"
	}
	return c.Principal.ID
}

// proposeToken commits a mutation about tokens.
func (s *admin) proposeToken(c *core.Call, m *fsmpb.Mutation) error {
	res, err := s.Commit(c, m, errNoToken)
	if err != nil {
		return err
	}
	for _, code := range res.Codes {
		if code == fsm.NotFound {
			return errNoToken
		}
		if err := code.Err(); err != nil {
			return err
		}
	}
	return nil
}

var errNoToken = core.NotThere("token", "the token does not exist, or has expired")

// listTokens is GET /v1/tokens.
func (s *admin) listTokens(c *core.Call) error {
	v := c.View()
	out := v1.TokenList{Tokens: []v1.AccessToken{}, LSN: c.Lsn.String()}
	for t := range v.Tokens("") {
		if fsm.Role(t.Role) == fsm.RoleMark {
			continue
		}
		shown := v1.AccessToken{
			ID: t.Id, Role: fsm.Role(t.Role).String(), Name: t.Name, Types: t.Types, Groups: t.Groups, Programs: t.Programs,
			RatePerSecond: float64(t.RateMilli) / 1000, Burst: t.Burst, MaxPayload: t.MaxPayload, ExpiresAt: t.ExpiresMs,
			MadeBy: t.MadeBy, CreatedAt: t.CreatedMs, UsedAt: t.UsedMs, MaxJobs: t.MaxJobs, MaxBytes: t.MaxBytes,
			Tenant: t.TenantID(),
		}
		if t.MaxJobs > 0 || t.MaxBytes > 0 {
			shown.Jobs, shown.Bytes = s.Node.AccountUsage(t.FamilyID())
		}
		out.Tokens = append(out.Tokens, shown)
	}
	return c.SendJSON(out)
}

// revokeToken is DELETE /v1/tokens/{id}.
func (s *admin) revokeToken(c *core.Call) error {
	overlap := int64(0)
	if text := c.Params.Get(v1.ParamOverlapMs); text != "" {
		var err error
		if overlap, err = strconv.ParseInt(text, 10, 64); err != nil {
			return core.Bad(v1.ParamOverlapMs, "is %q; must be a number of milliseconds", core.Shown(text))
		}
	}
	if err := core.CheckMs(v1.ParamOverlapMs, overlap, s.Config.Limits.Delay); err != nil {
		return err
	}
	if t := s.Node.Token(c.Name); t != nil && fsm.Role(t.Role) == fsm.RoleMark {
		return errNoToken
	}
	op := &fsmpb.RevokeToken{Id: c.Name, OverlapMs: overlap}
	if err := s.proposeToken(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: op}}); err != nil {
		return err
	}
	return c.SendDone()
}

// rotateToken is POST /v1/tokens/{id}/rotate: a new token of the same family, which owns the
// claims of the old one.
func (s *admin) rotateToken(c *core.Call, in *v1.RotateToken) error {
	if err := core.CheckMs("overlapMs", in.OverlapMs, s.Config.Limits.Delay); err != nil {
		return err
	}
	old := s.Node.Token(c.Name)
	if old == nil || fsm.Role(old.Role) == fsm.RoleMark {
		return errNoToken
	}
	t := &fsmpb.Token{
		Name: old.Name, Role: old.Role, Types: old.Types, Groups: old.Groups, Programs: old.Programs,
		RateMilli: old.RateMilli, Burst: old.Burst, MaxPayload: old.MaxPayload, Family: old.FamilyID(),
		MaxJobs: old.MaxJobs, MaxBytes: old.MaxBytes, Tenant: old.Tenant,
	}
	if in.TTLMs == 0 && old.ExpiresMs > 0 {
		in.TTLMs = old.ExpiresMs - old.CreatedMs
	}
	if err := s.setExpiry(t, in.TTLMs); err != nil {
		return err
	}
	return s.addToken(c, t, &fsmpb.RevokeToken{Id: c.Name, OverlapMs: in.OverlapMs})
}
