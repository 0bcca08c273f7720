// Package tokens has the access tokens of the state: with the hashes of their secrets, never with the secrets.
package tokens

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/tenants"
)

// Role is the set of rights of a token. Package internal/auth says which rights each role
// has; the machine only keeps it.
type Role uint8

// The roles. Snapshots have these numbers: they must not change.
const (
	Producer Role = iota + 1 // enqueues jobs and follows its own
	Worker                   // claims jobs and reports on them
	Reader                   // reads everything in its scope
	Operator                 // changes jobs, queues and schedules, in addition
	Admin                    // everything, including tokens
	Mark                     // none: the record is a mark, not a token

	numRoles = iota + 1
)

var roleNames = [numRoles]string{"", "producer", "worker", "reader", "operator", "admin", "mark"}

// String returns the role's name as used on the wire.
func (r Role) String() string { return job.NameOf(roleNames[:], r) }

// ParseRole reads the text of Role.String; ok is false for any other text.
func ParseRole(name string) (r Role, ok bool) { return job.ParseName[Role](roleNames[:], name) }

// The limits of tokens. They bound the size of the state.
const (
	Max       = 10_000
	idMax     = 64
	markIDMax = 80 // a mark has the name of a node of up to 63 bytes in its id
	textMax   = 256
	listMax   = 64
)

// BootstrapMark is the id of the mark that the first admin token was added.
const BootstrapMark = "bootstrap"

// RevokedMark returns the id of the mark that revokes the certificates of a node: those that
// were issued until the mark was made.
func RevokedMark(node string) string { return "node/" + node }

// touchMs is the shortest time between two recorded uses of a token.
const touchMs = 3_600_000

// ErrValue is the error for a token that is not valid in any state.
var ErrValue = errors.New("a token has an invalid id, hash, role or scope, or a negative limit")

func idMaxOf(r Role) int {
	if r == Mark {
		return markIDMax
	}
	return idMax
}

// Check refuses tokens that are not valid in any state.
func Check(t *fsmpb.Token) error {
	texts := append([]string{t.GetName(), t.GetMadeBy()}, append(slices.Clone(t.GetTypes()), t.GetGroups()...)...)
	switch {
	case t == nil, t.Id == "", len(t.Id) > idMaxOf(Role(min(t.Role, numRoles))), len(t.Family) > idMax, !utf8.ValidString(t.Id), !utf8.ValidString(t.Family):
		return ErrValue
	case tenants.Check(t.Tenant) != nil, len(t.Hash) != sha256.Size, t.Role == 0, t.Role >= numRoles:
		return ErrValue
	case max(len(t.Types), len(t.Groups)) > listMax:
		return ErrValue
	case min(t.RateMilli, t.Burst, t.MaxPayload, t.MaxJobs, t.MaxBytes, t.ExpiresMs, t.CreatedMs, t.UsedMs) < 0:
		return ErrValue
	}
	for _, text := range texts {
		if len(text) > textMax || !utf8.ValidString(text) {
			return ErrValue
		}
	}
	return nil
}

// Table has the tokens of the state. It is not safe for concurrent use.
type Table struct {
	btree.Table[fsmpb.Token] // by id; due: those that expire
	byID                     map[string]*fsmpb.Token
	Ended                    uint64 // how many tokens were removed
}

// New returns an empty table.
func New() Table {
	return Table{
		Table: btree.NewTable(
			func(a, b *fsmpb.Token) bool { return a.Id < b.Id },
			func(t *fsmpb.Token) (int64, bool) { return t.ExpiresMs, t.ExpiresMs != 0 },
		),
		byID: make(map[string]*fsmpb.Token),
	}
}

// The reasons of refusals.
var (
	ErrAgain   = errors.New("the state has the token already")
	ErrTaken   = errors.New("another token has the id")
	ErrNone    = errors.New("no such token")
	ErrTooMany = errors.New("too many tokens")
	ErrExpired = errors.New("the token would have expired already")
)

// ByID returns the token with that id, or nil. It takes constant time and allocates nothing.
func (x *Table) ByID(id string) *fsmpb.Token { return x.byID[id] }

// Add adds a token of a stored state.
func (x *Table) Add(t *fsmpb.Token) { x.put(nil, t) }

// Create adds a token, and ends the one that it replaces: both or neither. The same token
// again is a duplicate; another one with the id is refused.
func (x *Table) Create(op *fsmpb.CreateToken, now int64) error {
	t := fsmpb.Clone(op.Token)
	t.CreatedMs = now
	if old := x.byID[t.Id]; old != nil {
		if bytes.Equal(old.Hash, t.Hash) && old.Role == t.Role {
			return ErrAgain
		}
		return ErrTaken
	}
	replaced := x.byID[op.Replaces]
	if op.Replaces != "" && (replaced == nil || Role(replaced.Role) == Mark) {
		return ErrNone
	}
	if x.Len() >= Max && (replaced == nil || op.OverlapMs > 0) {
		return ErrTooMany
	}
	if t.ExpiresMs != 0 && t.ExpiresMs <= now {
		return ErrExpired
	}
	if replaced != nil {
		x.end(replaced, op.OverlapMs, now)
	}
	x.put(nil, t)
	return nil
}

// Revoke ends a token.
func (x *Table) Revoke(op *fsmpb.RevokeToken, now int64) error {
	old := x.byID[op.Id]
	if old == nil {
		return ErrNone
	}
	x.end(old, op.OverlapMs, now)
	return nil
}

// end removes a token at once, or lets it expire after an overlap in ms. An overlap never
// makes a token valid for longer.
func (x *Table) end(old *fsmpb.Token, overlap, now int64) {
	if overlap <= 0 {
		x.drop(old)
		return
	}
	end := job.Later(now, overlap)
	if old.ExpiresMs == 0 || end < old.ExpiresMs {
		t := fsmpb.Copy(old)
		t.ExpiresMs = end
		x.put(old, t)
	}
}

// Touch records uses of tokens. It skips tokens that do not exist, and returns the number of
// tokens whose time changed.
func (x *Table) Touch(op *fsmpb.TouchTokens, now int64) (touched uint64) {
	for _, id := range op.Ids {
		old := x.byID[id]
		if old == nil || old.UsedMs != 0 && job.Later(old.UsedMs, touchMs) > now {
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
func (x *Table) put(old, t *fsmpb.Token) {
	x.Set(old, t)
	x.byID[t.Id] = t
}

func (x *Table) drop(t *fsmpb.Token) {
	x.Delete(t)
	delete(x.byID, t.Id)
	x.Ended++
}

// Expire removes the tokens that have expired.
func (x *Table) Expire(now int64) {
	x.Table.Expire(func(t *fsmpb.Token) bool { return t.ExpiresMs <= now }, x.drop)
}

// String lists what the table derives from the tokens, for comparisons.
func (x *Table) String() string {
	var out strings.Builder
	x.Due(func(t *fsmpb.Token) bool { fmt.Fprintf(&out, "token %s ends at %d\n", t.Id, t.ExpiresMs); return true })
	for _, id := range slices.Sorted(maps.Keys(x.byID)) {
		fmt.Fprintf(&out, "token %s: %v\n", id, x.byID[id])
	}
	return out.String()
}
