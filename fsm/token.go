package fsm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"iter"
	"slices"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/tenants"
)

// Role is the set of rights of a token. Package internal/auth says which rights each role
// has; the machine only keeps it.
type Role uint8

// The roles. Snapshots have these numbers: they must not change.
const (
	RoleProducer Role = iota + 1 // enqueues jobs and follows its own
	RoleWorker                   // claims jobs and reports on them
	RoleReader                   // reads everything in its scope
	RoleOperator                 // changes jobs, queues and schedules, in addition
	RoleAdmin                    // everything, including tokens
	RoleMark                     // none: the record is a mark, not a token

	numRoles = iota + 1
)

var roleNames = [numRoles]string{"", "producer", "worker", "reader", "operator", "admin", "mark"}

// String returns the role's name as used on the wire.
func (r Role) String() string { return job.NameOf(roleNames[:], r) }

// ParseRole reads the text of Role.String; ok is false for any other text.
func ParseRole(name string) (r Role, ok bool) { return job.ParseName[Role](roleNames[:], name) }

// Token is an access token as the state has it: with the hash of its secret, never with
// the secret. It is immutable.
type Token = fsmpb.Token

// The limits of tokens. They bound the size of the state.
const (
	TokensMax    = 10_000
	tokenIDMax   = 64
	markIDMax    = 80 // a mark has the name of a node of up to 63 bytes in its id
	tokenTextMax = 256
	tokenListMax = 64
)

// BootstrapMark is the id of the mark that the first admin token was added.
const BootstrapMark = "bootstrap"

// RevokedMark returns the id of the mark that revokes the certificates of a node: those that
// were issued until the mark was made.
func RevokedMark(node string) string { return "node/" + node }

// touchMs is the shortest time between two recorded uses of a token.
const touchMs = 3_600_000

var errTokenValue = errors.New("a token has an invalid id, hash, role or scope, or a negative limit")

func idMax(r Role) int {
	if r == RoleMark {
		return markIDMax
	}
	return tokenIDMax
}

// checkToken refuses tokens that are not valid in any state.
func checkToken(t *fsmpb.Token) error {
	texts := append([]string{t.GetName(), t.GetMadeBy()}, append(slices.Clone(t.GetTypes()), t.GetGroups()...)...)
	switch {
	case t == nil, t.Id == "", len(t.Id) > idMax(Role(min(t.Role, numRoles))), len(t.Family) > tokenIDMax, !utf8.ValidString(t.Id), !utf8.ValidString(t.Family):
		return errTokenValue
	case tenants.Check(t.Tenant) != nil, len(t.Hash) != sha256.Size, t.Role == 0, t.Role >= numRoles:
		return errTokenValue
	case max(len(t.Types), len(t.Groups)) > tokenListMax:
		return errTokenValue
	case min(t.RateMilli, t.Burst, t.MaxPayload, t.MaxJobs, t.MaxBytes, t.ExpiresMs, t.CreatedMs, t.UsedMs) < 0:
		return errTokenValue
	}
	for _, text := range texts {
		if len(text) > tokenTextMax || !utf8.ValidString(text) {
			return errTokenValue
		}
	}
	return nil
}

// tokens has the tokens of the state.
type tokens struct {
	table[Token] // by id; due: those that expire
	byID         map[string]*Token
	ended        uint64 // see Machine.TokensEnded
}

func newTokens() tokens {
	return tokens{
		table: newTable(
			func(a, b *Token) bool { return a.Id < b.Id },
			func(t *Token) (int64, bool) { return t.ExpiresMs, t.ExpiresMs != 0 },
		),
		byID: make(map[string]*Token),
	}
}

// create adds a token, and ends the one that it replaces: both or neither. The same token
// again is a duplicate; another one with the id is refused.
func (x *tokens) create(op *fsmpb.CreateToken, now int64) Code {
	t := fsmpb.Clone(op.Token)
	t.CreatedMs = now
	if old := x.byID[t.Id]; old != nil {
		if bytes.Equal(old.Hash, t.Hash) && old.Role == t.Role {
			return Duplicate
		}
		return IDTaken
	}
	replaced := x.byID[op.Replaces]
	if op.Replaces != "" && (replaced == nil || Role(replaced.Role) == RoleMark) {
		return NotFound
	}
	if x.Len() >= TokensMax && (replaced == nil || op.OverlapMs > 0) {
		return TooManyTokens
	}
	if t.ExpiresMs != 0 && t.ExpiresMs <= now {
		return TokenExpired
	}
	if replaced != nil {
		x.end(replaced, op.OverlapMs, now)
	}
	x.put(nil, t)
	return OK
}

// revoke ends a token.
func (x *tokens) revoke(op *fsmpb.RevokeToken, now int64) Code {
	old := x.byID[op.Id]
	if old == nil {
		return NotFound
	}
	x.end(old, op.OverlapMs, now)
	return OK
}

// end removes a token at once, or lets it expire after an overlap in ms. An overlap never
// makes a token valid for longer.
func (x *tokens) end(old *Token, overlap, now int64) {
	if overlap <= 0 {
		x.drop(old)
		return
	}
	end := later(now, overlap)
	if old.ExpiresMs == 0 || end < old.ExpiresMs {
		t := fsmpb.Copy(old)
		t.ExpiresMs = end
		x.put(old, t)
	}
}

// touch records uses of tokens. It skips tokens that do not exist, and returns the number of
// tokens whose time changed.
func (x *tokens) touch(op *fsmpb.TouchTokens, now int64) (touched uint64) {
	for _, id := range op.Ids {
		old := x.byID[id]
		if old == nil || old.UsedMs != 0 && later(old.UsedMs, touchMs) > now {
			continue
		}
		t := fsmpb.Copy(old)
		t.UsedMs = now
		x.put(old, t)
		touched++
	}
	return touched
}

// put replaces old, which is nil for a new token.
func (x *tokens) put(old, t *Token) {
	x.Set(old, t)
	x.byID[t.Id] = t
}

func (x *tokens) drop(t *Token) {
	x.Delete(t)
	delete(x.byID, t.Id)
	x.ended++
}

// expire removes the tokens that have expired.
func (x *tokens) expire(now int64) {
	x.Expire(func(t *Token) bool { return t.ExpiresMs <= now }, x.drop)
}

// TokensEnded returns how many tokens this machine has removed. It is no part of the state: a
// machine that is restored begins at 0.
func (m *Machine) TokensEnded() uint64 { return m.tokens.ended }

// Token returns the token with that id, or nil. It takes constant time, allocates nothing,
// and reads live state, as Job does.
func (m *Machine) Token(id string) *Token { return m.tokens.byID[id] }

// TokenCount returns the number of tokens.
func (m *Machine) TokenCount() int { return m.tokens.Len() }

// Tokens iterates over the tokens whose id is from or later, in the order of ids.
func (v *View) Tokens(from string) iter.Seq[*Token] { return v.tokens.From(&Token{Id: from}) }

// TokenCount returns the number of tokens.
func (v *View) TokenCount() int { return v.tokens.Len() }

// Token returns the token with that id, or nil.
func (v *View) Token(id string) *Token { return v.tokens.Find(&Token{Id: id}) }

// owned reports whether a caller may report on a job: the caller or the claim has no owner,
// or both have the same.
func owned(j *Job, owner uint64) bool {
	claimed := j.Details().Owner
	return owner == 0 || claimed == 0 || claimed == owner
}
