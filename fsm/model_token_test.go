package fsm_test

import (
	"bytes"
	"cmp"
	"slices"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (m *model) token(id string) (at int, t *fsm.Token) {
	at = slices.IndexFunc(m.tokens, func(k *fsm.Token) bool { return k.Id == id })
	if at < 0 {
		return at, nil
	}
	return at, m.tokens[at]
}

func (m *model) createToken(op *fsmpb.CreateToken) fsm.Result {
	p := op.Token
	switch _, old := m.token(p.Id); {
	case old != nil && bytes.Equal(old.Hash, p.Hash) && old.Role == p.Role:
		return fsm.Result{Code: fsm.Duplicate}
	case old != nil:
		return fsm.Result{Code: fsm.IDTaken}
	}
	if _, replaced := m.token(op.Replaces); op.Replaces != "" && (replaced == nil || fsm.Role(replaced.Role) == fsm.RoleMark) {
		return fsm.Result{Code: fsm.NotFound}
	}
	if p.ExpiresMs != 0 && p.ExpiresMs <= m.meta.NowMs {
		return fsm.Result{Code: fsm.TokenExpired}
	}
	m.revokeToken(&fsmpb.RevokeToken{Id: op.Replaces, OverlapMs: op.OverlapMs})
	t := fsmpb.Copy(p)
	t.CreatedMs = m.meta.NowMs
	m.tokens = append(slices.Clone(m.tokens), t)
	slices.SortFunc(m.tokens, func(a, b *fsm.Token) int { return cmp.Compare(a.Id, b.Id) })
	return fsm.Result{}
}

func (m *model) revokeToken(op *fsmpb.RevokeToken) fsm.Result {
	at, old := m.token(op.Id)
	if old == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	m.tokens = slices.Clone(m.tokens)
	if op.OverlapMs == 0 {
		m.tokens = slices.Delete(m.tokens, at, at+1)
		return fsm.Result{}
	}
	t := fsmpb.Copy(old)
	if end := sum(m.meta.NowMs, op.OverlapMs); t.ExpiresMs == 0 || end < t.ExpiresMs {
		t.ExpiresMs = end
	}
	m.tokens[at] = t
	return fsm.Result{}
}

func (m *model) touchTokens(op *fsmpb.TouchTokens) (res fsm.Result) {
	for _, id := range op.Ids {
		at, old := m.token(id)
		if old == nil || old.UsedMs != 0 && sum(old.UsedMs, 3_600_000) > m.meta.NowMs {
			continue
		}
		t := fsmpb.Copy(old)
		t.UsedMs = m.meta.NowMs
		m.tokens = slices.Clone(m.tokens)
		m.tokens[at] = t
		res.Count++
	}
	return res
}

var tokenNames = []string{"k1", "k2", "k3", "k4"}

// token makes a mutation about one of a few tokens.
func (w *workload) token(t *rapid.T) *fsmpb.Mutation {
	id := pick(t, tokenNames, "token")
	switch roll(t, 4, "of tokens") {
	case 0:
		return revokeToken(id, pick(t, []int64{0, 50, 100_000}, "overlap"))
	case 1:
		return touchTokens(id, pick(t, tokenNames, "other token"))
	}
	m := createToken(id, fsm.Role(1+roll(t, 6, "role")))
	k := m.GetCreateToken().Token
	if once(t, 2, "expires") {
		k.ExpiresMs = max(sum(w.now, pick(t, []int64{20, 200, 100_000, -5}, "lives")), 1)
	}
	if once(t, 4, "another secret") {
		k.Hash = bytes.Repeat([]byte{7}, 32)
	}
	if once(t, 3, "scoped") {
		k.Types, k.Groups, k.Name, k.Programs, k.RateMilli = []string{"a*"}, []string{"g"}, "ci", true, 5
	}
	if once(t, 4, "quotas") {
		k.MaxJobs, k.MaxBytes = 3, 5
	}
	if op := m.GetCreateToken(); once(t, 3, "replaces") {
		op.Replaces, op.OverlapMs = pick(t, tokenNames, "replaced"), pick(t, []int64{0, 50, 100_000}, "overlap")
	}
	return m
}

// owned gives a mutation an owner: mostly the first of two.
func owned(t *rapid.T, m *fsmpb.Mutation) *fsmpb.Mutation {
	owner := pick(t, []uint64{0, 0, 0, 0, 1, 1, 2}, "owner")
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_Claim:
		op.Claim.Owner = owner
	case *fsmpb.Mutation_Heartbeat:
		op.Heartbeat.Owner = owner
	case *fsmpb.Mutation_Complete:
		op.Complete.Owner = owner
	case *fsmpb.Mutation_Fail:
		op.Fail.Owner = owner
	case *fsmpb.Mutation_Release:
		op.Release.Owner = owner
	case *fsmpb.Mutation_StoreStep:
		op.StoreStep.Owner = owner
	case *fsmpb.Mutation_Suspend:
		op.Suspend.Owner = owner
	case *fsmpb.Mutation_AttachArtefact:
		op.AttachArtefact.Owner = owner
	case *fsmpb.Mutation_ThrottleLimit:
		op.ThrottleLimit.Owner = owner
	}
	return m
}
