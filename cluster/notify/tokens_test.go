package notify

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Waiters wake when a token is revoked, when one expires with the time of the queue, and when the
// state is replaced; not when a token is made or used.
func TestTokens(t *testing.T) {
	m, tokens := fsm.New(), NewTokens()
	index, now := uint64(0), int64(1000)
	wakes := func(what string, want bool, ms ...*fsmpb.Mutation) {
		t.Helper()
		ended := tokens.Ended()
		index++
		for _, res := range m.Apply(index, 1, &fsmpb.Batch{NowMs: now, Mutations: ms}) {
			if res.Code != fsm.OK {
				t.Fatalf("%s: %s", what, res.Code)
			}
		}
		tokens.Applied(m)
		select {
		case <-ended:
			if !want {
				t.Errorf("%s wakes", what)
			}
		default:
			if want {
				t.Errorf("%s does not wake", what)
			}
		}
	}
	create := func(id string, expires int64) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
			Id: id, Hash: make([]byte, 32), Role: uint32(fsm.RoleReader), ExpiresMs: expires,
		}}}}
	}
	wakes("a new token", false, create("a", 0), create("b", 5000))
	wakes("a use", false, &fsmpb.Mutation{Op: &fsmpb.Mutation_TouchTokens{TouchTokens: &fsmpb.TouchTokens{Ids: []string{"a"}}}})
	wakes("a revocation", true, &fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: "a"}}})
	now = 5000
	wakes("an expiry", true)
	ended := tokens.Ended()
	tokens.Restored(fsm.New())
	select {
	case <-ended:
	default:
		t.Error("another state does not wake")
	}
}
