package core

import (
	"errors"
	"testing"

	"osqueue/fsm"
	"osqueue/internal/auth"
)

// A token that is known is refused as soon as the state has it no more, or it has expired, and
// has the rights of its present record.
func TestKnownTokens(t *testing.T) {
	s := auth.New()
	state := map[string]*fsm.Token{s.ID: {Id: s.ID, Hash: []byte(s.Hash), Role: uint32(fsm.RoleReader)}}
	find := func(id string) *fsm.Token { return state[id] }
	var k knownTokens
	has := func(now int64, want *auth.Principal) *auth.Principal {
		t.Helper()
		p, err := k.Authorize(s.Text, now, find)
		if err != nil {
			t.Fatal(err)
		}
		if want != nil && p != want {
			t.Error("a known token was read again")
		}
		return p
	}
	has(1, has(1, nil))
	state[s.ID] = &fsm.Token{Id: s.ID, Hash: []byte(s.Hash), Role: uint32(fsm.RoleWorker), ExpiresMs: 5}
	if p := has(2, nil); p.Role != fsm.RoleWorker || p.ExpiresAt != 5 {
		t.Errorf("the changed token: %+v", p)
	}
	refused := func(now int64) {
		t.Helper()
		if p, err := k.Authorize(s.Text, now, find); !errors.Is(err, auth.ErrToken) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	refused(5)
	delete(state, s.ID)
	refused(2)
	if _, err := k.Authorize(s.Text, 2, find); errors.Is(err, auth.ErrUnknown) {
		t.Errorf("a token that was known is unknown: %v", err)
	}
	if _, err := k.Authorize(s.Text[:len(s.Text)-1], 1, find); !errors.Is(err, auth.ErrToken) {
		t.Error(err)
	}
	state[s.ID] = &fsm.Token{Id: s.ID, Hash: []byte(auth.New().Hash), Role: uint32(fsm.RoleAdmin)}
	refused(1)
}

func TestKnownTokensAreBounded(t *testing.T) {
	var k knownTokens
	s := auth.New()
	token := &fsm.Token{Id: s.ID, Hash: []byte(s.Hash), Role: uint32(fsm.RoleReader)}
	k.byHash = make(map[[32]byte]knownToken)
	for i := range knownMax {
		k.byHash[[32]byte{byte(i), byte(i >> 8), byte(i >> 16)}] = knownToken{token, nil}
	}
	if _, err := k.Authorize(s.Text, 1, func(string) *fsm.Token { return token }); err != nil || len(k.byHash) != 1 {
		t.Errorf("%d are known: %v", len(k.byHash), err)
	}
}
