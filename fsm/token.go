package fsm

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/fsm/timed"
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
func (r Role) String() string { return nameOf(roleNames[:], r) }

// ParseRole reads the text of Role.String; ok is false for any other text.
func ParseRole(name string) (r Role, ok bool) { return parseName[Role](roleNames[:], name) }

// Token is an access token as the state has it: with the hash of its secret, never with
// the secret. It is immutable.
//
// A record of RoleMark is no token and has no rights. It records that something has happened
// that must happen once on all nodes together, at CreatedAt: the first admin token was added
// (BootstrapMark), the certificates of a node were revoked (RevokedMark), or a node may join
// (package internal/auth/enroll, which also uses Name and Types of its marks). Marks share the bound and the expiry of tokens.
type Token struct {
	ID         string
	Hash       string // SHA-256 of the secret, 32 bytes
	Name       string // for people
	Role       Role
	Types      []string // globs of the types that it may use; none: all
	Groups     []string // globs of the groups that it may use; none: all
	Programs   bool     // it may enqueue jobs of types that run programs
	RateMilli  int64    // requests per second, in thousandths; 0: no limit
	Burst      int64    // requests that may come at once; less than 1 counts as 1
	MaxPayload int64    // bytes of one payload; 0: no limit
	MaxJobs    int64    // that it enqueued and that have not ended; 0: no limit
	MaxBytes   int64    // of the payloads of these jobs; 0: no limit
	ExpiresAt  int64    // ms, the first moment at which it is invalid; 0: never
	Family     string   // id of the first token of a chain of rotations; "" is ID
	Tenant     string   // of a limited token; "": see TenantID
	MadeBy     string   // id of the principal that created it
	CreatedAt  int64    // ms
	UsedAt     int64    // ms, at most touchMs behind the last use that the leader saw; 0: never used
}

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

func tokenToPB(t *Token) *fsmpb.Token {
	return &fsmpb.Token{
		Id: t.ID, Hash: []byte(t.Hash), Name: t.Name, Role: uint32(t.Role), Types: t.Types, Groups: t.Groups,
		Programs: t.Programs, RateMilli: t.RateMilli, Burst: t.Burst, MaxPayload: t.MaxPayload, ExpiresMs: t.ExpiresAt,
		Family: t.Family, MadeBy: t.MadeBy, CreatedMs: t.CreatedAt, UsedMs: t.UsedAt,
		MaxJobs: t.MaxJobs, MaxBytes: t.MaxBytes, Tenant: t.Tenant,
	}
}

// tokenFromPB copies the texts, which would keep a log entry in memory.
func tokenFromPB(p *fsmpb.Token) *Token {
	return &Token{
		ID: strings.Clone(p.Id), Hash: string(p.Hash), Name: strings.Clone(p.Name), Role: narrow[Role](p.Role),
		Types: cloneStrings(p.Types), Groups: cloneStrings(p.Groups),
		Programs: p.Programs, RateMilli: p.RateMilli, Burst: p.Burst, MaxPayload: p.MaxPayload, ExpiresAt: p.ExpiresMs,
		Family: strings.Clone(p.Family), MadeBy: strings.Clone(p.MadeBy), CreatedAt: p.CreatedMs, UsedAt: p.UsedMs,
		MaxJobs: p.MaxJobs, MaxBytes: p.MaxBytes, Tenant: strings.Clone(p.Tenant),
	}
}

// TenantID returns the owner of the objects that the token makes. All tokens without limits are of
// the tenant "". A limited token without a tenant is one by itself, with those that it is rotated to.
func (t *Token) TenantID() string {
	if len(t.Types) == 0 && len(t.Groups) == 0 {
		return ""
	}
	return cmp.Or(t.Tenant, t.FamilyID())
}

// FamilyID returns the id of the first token of the chain of rotations. Claims and quotas
// belong to the family.
func (t *Token) FamilyID() string { return cmp.Or(t.Family, t.ID) }

// tokens has the tokens of the state.
type tokens struct {
	timed.Table[Token] // by id; due: those that expire
	byID               map[string]*Token
	ended              uint64 // see Machine.TokensEnded
}

func newTokens() tokens {
	return tokens{
		Table: timed.New(
			func(a, b *Token) bool { return a.ID < b.ID },
			func(t *Token) (int64, bool) { return t.ExpiresAt, t.ExpiresAt != 0 },
		),
		byID: make(map[string]*Token),
	}
}

// create adds a token, and ends the one that it replaces: both or neither. The same token
// again is a duplicate; another one with the id is refused.
func (x *tokens) create(op *fsmpb.CreateToken, now int64) Code {
	t := tokenFromPB(op.Token)
	t.CreatedAt = now
	if old := x.byID[t.ID]; old != nil {
		if old.Hash == t.Hash && old.Role == t.Role {
			return Duplicate
		}
		return IDTaken
	}
	replaced := x.byID[op.Replaces]
	if op.Replaces != "" && (replaced == nil || replaced.Role == RoleMark) {
		return NotFound
	}
	if x.Len() >= TokensMax && (replaced == nil || op.OverlapMs > 0) {
		return TooManyTokens
	}
	if t.ExpiresAt != 0 && t.ExpiresAt <= now {
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
	if old.ExpiresAt == 0 || end < old.ExpiresAt {
		t := *old
		t.ExpiresAt = end
		x.put(old, &t)
	}
}

// touch records uses of tokens. It skips tokens that do not exist, and returns the number of
// tokens whose time changed.
func (x *tokens) touch(op *fsmpb.TouchTokens, now int64) (touched uint64) {
	for _, id := range op.Ids {
		old := x.byID[id]
		if old == nil || old.UsedAt != 0 && later(old.UsedAt, touchMs) > now {
			continue
		}
		t := *old
		t.UsedAt = now
		x.put(old, &t)
		touched++
	}
	return touched
}

// put replaces old, which is nil for a new token.
func (x *tokens) put(old, t *Token) {
	x.Set(old, t)
	x.byID[t.ID] = t
}

func (x *tokens) drop(t *Token) {
	x.Delete(t)
	delete(x.byID, t.ID)
	x.ended++
}

// expire removes the tokens that have expired.
func (x *tokens) expire(now int64) {
	x.Expire(func(t *Token) bool { return t.ExpiresAt <= now }, x.drop)
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
func (v *View) Tokens(from string) iter.Seq[*Token] { return v.tokens.From(&Token{ID: from}) }

// TokenCount returns the number of tokens.
func (v *View) TokenCount() int { return v.tokens.Len() }

// Token returns the token with that id, or nil.
func (v *View) Token(id string) *Token { return v.tokens.Find(&Token{ID: id}) }

// owned reports whether a caller may report on a job: the caller or the claim has no owner,
// or both have the same.
func owned(j *Job, owner uint64) bool {
	claimed := j.Details().Owner
	return owner == 0 || claimed == 0 || claimed == owner
}
