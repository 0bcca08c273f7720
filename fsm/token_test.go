package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// tokensOf returns the ids of the tokens, and when they expire.
func tokensOf(m *fsm.Machine) string {
	var out []string
	m.View().Tokens("", func(t *fsm.Token) bool {
		out = append(out, fmt.Sprintf("%s:%d", t.ID, t.ExpiresAt))
		return true
	})
	return strings.Join(out, " ")
}

// A rotation and a revocation of a token, in both orders and twice: no order leaves a token whose
// secret no caller has got, because a rotation without its token adds none.
func TestATokenIsReplacedOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		ops   []*fsmpb.Mutation
		codes []fsm.Code
		left  string
	}{
		{"rotate, revoke", []*fsmpb.Mutation{replaceToken("new", "old", 0), revokeToken("old", 0)}, []fsm.Code{fsm.OK, fsm.NotFound}, "new:0"},
		{"revoke, rotate", []*fsmpb.Mutation{revokeToken("old", 0), replaceToken("new", "old", 0)}, []fsm.Code{fsm.OK, fsm.NotFound}, ""},
		{"rotate, rotate", []*fsmpb.Mutation{replaceToken("a", "old", 0), replaceToken("b", "old", 0)}, []fsm.Code{fsm.OK, fsm.NotFound}, "a:0"},
		{"rotate again", []*fsmpb.Mutation{replaceToken("new", "old", 0), replaceToken("new", "old", 0)}, []fsm.Code{fsm.OK, fsm.Duplicate}, "new:0"},
		{"with an overlap", []*fsmpb.Mutation{replaceToken("new", "old", 50)}, []fsm.Code{fsm.OK}, "new:0 old:52"},
		{"a mark", []*fsmpb.Mutation{createToken("mark", fsm.RoleMark), replaceToken("new", "mark", 0)}, []fsm.Code{fsm.OK, fsm.NotFound}, "mark:0 old:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := fsm.New()
			apply(t, m, 1, createToken("old", fsm.RoleReader))
			for i, r := range apply(t, m, 2, c.ops...) {
				if r.Code != c.codes[i] {
					t.Errorf("step %d: %v, want %v", i, r.Code, c.codes[i])
				}
			}
			if got := tokensOf(m); got != c.left {
				t.Errorf("left are %q, want %q", got, c.left)
			}
		})
	}
}

// With as many tokens as there may be, a token can be replaced at once, and one that cannot is
// left as it is.
func TestATokenIsReplacedAmongTooMany(t *testing.T) {
	m := fsm.New()
	for i := range fsm.TokensMax {
		apply(t, m, 1, createToken(fmt.Sprint("t", i), fsm.RoleReader))
	}
	got := apply(t, m, 2, replaceToken("a", "t1", 50), replaceToken("b", "t2", 0))
	if got[0].Code != fsm.TooManyTokens || got[1].Code != fsm.OK {
		t.Errorf("%v", got)
	}
	if old := m.Token("t1"); old == nil || old.ExpiresAt != 0 || m.Token("t2") != nil || m.Token("b") == nil {
		t.Errorf("t1 is %+v, t2 %+v, b %+v", old, m.Token("t2"), m.Token("b"))
	}
}
