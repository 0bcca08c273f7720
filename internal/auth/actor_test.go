package auth

import (
	"strings"
	"testing"
	"unicode/utf8"

	"osqueue/fsm"
)

func TestActor(t *testing.T) {
	for want, p := range map[string]*Principal{
		"token id (é)":  OfToken(&fsm.Token{Id: "id", Name: "é"}),
		"token id":      OfToken(&fsm.Token{Id: "id"}),
		"local-admin":   LocalAdmin(),
		"legacy":        Legacy([]string{"mail"}),
		"oidc:a\uFFFDb": {Kind: KindJWT, ID: "oidc:a\xffb"},
	} {
		if got := p.Actor(); got != want {
			t.Errorf("actor %q, want %q", got, want)
		}
	}
	for n := range 4 {
		long := OfToken(&fsm.Token{Id: "id", Name: strings.Repeat("x", n) + strings.Repeat("é漢", 100)})
		if got := long.Actor(); len(got) > fsm.ActorMax || len(got) < fsm.ActorMax-3 || !utf8.ValidString(got) {
			t.Errorf("actor %q of %d bytes", got, len(got))
		}
	}
}
