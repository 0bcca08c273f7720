package fsm

import (
	"errors"
	"iter"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tokens"
)

// Token is an access token as the state has it: with the hash of its secret, never with
// the secret. It is immutable.
type Token = fsmpb.Token

// Role is the set of rights of a token.
type Role = tokens.Role

// Roles, bounds and marks, as package tokens has them.
const (
	RoleProducer = tokens.Producer
	RoleWorker   = tokens.Worker
	RoleReader   = tokens.Reader
	RoleOperator = tokens.Operator
	RoleAdmin    = tokens.Admin
	RoleMark     = tokens.Mark

	TokensMax     = tokens.Max
	BootstrapMark = tokens.BootstrapMark
)

// ParseRole reads the text of Role.String; ok is false for any other text.
func ParseRole(name string) (r Role, ok bool) { return tokens.ParseRole(name) }

// RevokedMark returns the id of the mark that revokes the certificates of a node.
func RevokedMark(node string) string { return tokens.RevokedMark(node) }

// tokenResult returns the answer to a mutation about a token.
func tokenResult(err error) Result {
	switch {
	case err == nil:
		return Result{}
	case errors.Is(err, tokens.ErrAgain):
		return Result{Code: Duplicate}
	case errors.Is(err, tokens.ErrTaken):
		return Result{Code: IDTaken}
	case errors.Is(err, tokens.ErrTooMany):
		return Result{Code: TooManyTokens}
	case errors.Is(err, tokens.ErrExpired):
		return Result{Code: TokenExpired}
	}
	return Result{Code: NotFound}
}

// TokensEnded returns how many tokens this machine has removed. It is no part of the state: a
// machine that is restored begins at 0.
func (m *Machine) TokensEnded() uint64 { return m.tokens.Ended }

// Token returns the token with that id, or nil. It takes constant time, allocates nothing,
// and reads live state, as Job does.
func (m *Machine) Token(id string) *Token { return m.tokens.ByID(id) }

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
