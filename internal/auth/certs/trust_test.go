package certs_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/internal/auth/certs"
)

// A node takes a new CA that its present CA has endorsed, and nothing else.
func TestBundlesThatANodeAccepts(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t)
	issue(t, a, node("n1"))
	own := func() *x509.Certificate {
		t.Helper()
		list, err := certs.ReadList(filepath.Join(dir, "n1.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	bundle := func(a *certs.Authority, newestOnly bool) certs.Bundle {
		t.Helper()
		b, err := a.Bundle(newestOnly)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first, firstBundle, oldOwn := a.Certificates(), bundle(a, false), own()
	if err := a.Rotate(certs.CALifetime, now); err != nil {
		t.Fatal(err)
	}
	both, bothBundle := a.Certificates(), bundle(a, false)
	newestBundle := bundle(a, true)
	issue(t, a, node("n1"))
	newOwn := own()
	foreign, _ := newAuthority(t)
	if err := foreign.Rotate(certs.CALifetime, now); err != nil {
		t.Fatal(err)
	}
	foreignBundle := bundle(foreign, false)
	pem := func(lists ...certs.List) string {
		text := ""
		for _, l := range lists {
			text += string(certs.Encode(l))
		}
		return text
	}
	for _, c := range []struct {
		name   string
		bundle certs.Bundle
		have   certs.List
		own    *x509.Certificate
		refuse string // part of the error; "": it is accepted
	}{
		{"a new CA", bothBundle, first, oldOwn, ""},
		{"again", bothBundle, both, oldOwn, ""},
		{"the first one again", firstBundle, first, oldOwn, ""},
		{"the newest only", newestBundle, both, newOwn, ""},
		{"the newest only, after it", newestBundle, both[:1], newOwn, ""},
		{"the newest only, too early", newestBundle, both, oldOwn, "osqueue cert trust --renew"},
		{"back to the first", firstBundle, both, oldOwn, "is missing"},
		{"the first one after its end", bothBundle, both[:1], newOwn, "for another CA"},
		{"without an endorsement", certs.Bundle{CA: bothBundle.CA}, first, oldOwn, "not endorsed"},
		{"another cluster", foreignBundle, first, oldOwn, "not a CA of this cluster"},
		{"another cluster and this one", certs.Bundle{CA: pem(foreign.Certificates()[:1], first), Endorsement: bothBundle.Endorsement}, first, oldOwn, "not a CA of this cluster"},
		{"the endorsement of another cluster", certs.Bundle{CA: bothBundle.CA, Endorsement: foreignBundle.Endorsement}, first, oldOwn, "for another CA"},
		{"a node's certificate as CA", certs.Bundle{CA: pem(certs.List{newOwn}, first), Endorsement: bothBundle.Endorsement}, first, oldOwn, "not a CA of this cluster"},
		{"an endorsement that is no certificate", certs.Bundle{CA: bothBundle.CA, Endorsement: []byte("x")}, first, oldOwn, "the endorsement"},
		{"three", certs.Bundle{CA: pem(both, foreign.Certificates()[:1])}, both, oldOwn, "at most 2"},
		{"none", certs.Bundle{CA: "x"}, first, oldOwn, "contains no certificate"},
	} {
		next, err := c.bundle.Accept(c.have, c.own, now.Add(time.Minute))
		switch {
		case c.refuse == "" && (err != nil || string(certs.Encode(next)) != c.bundle.CA):
			t.Errorf("%s: %v", c.name, err)
		case c.refuse != "" && (err == nil || !strings.Contains(err.Error(), c.refuse)):
			t.Errorf("%s: the error is %v, want %q", c.name, err, c.refuse)
		}
	}
	if _, err := bothBundle.Accept(first, oldOwn, now.Add(2*certs.CALifetime)); err == nil {
		t.Error("an expired CA is accepted")
	}
}

// A rotation that was cut between the certificates and the key is as if it had not begun.
func TestRotationThatIsCut(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t)
	key := filepath.Join(dir, "ca.key")
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	first := a.Certificates()[0]
	if err := a.Rotate(certs.CALifetime, now); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, before, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := certs.LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if list := again.Certificates(); len(list) != 1 || !list[0].Equal(first) {
		t.Errorf("the CA has %d certificates", len(list))
	}
	if err := again.Rotate(certs.CALifetime, now); err != nil {
		t.Error(err)
	}
	if list := again.Certificates(); len(list) != 2 || !list[1].Equal(first) {
		t.Errorf("after the next rotation the CA has %d certificates", len(list))
	}
}

// FuzzAccept checks that only CAs with an endorsement are accepted.
func FuzzAccept(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "certs")
	a, err := certs.CreateAuthority(dir, certs.CALifetime, now)
	if err != nil {
		f.Fatal(err)
	}
	own, err := a.Issue(certs.Request{Kind: certs.Node, Name: "n1", Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}, now)
	if err != nil {
		f.Fatal(err)
	}
	have := a.Certificates()
	if err := a.Rotate(certs.CALifetime, now); err != nil {
		f.Fatal(err)
	}
	b, err := a.Bundle(false)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b.CA, b.Endorsement)
	f.Add("", []byte(nil))
	endorsed := a.Certificates()[0]
	f.Fuzz(func(t *testing.T, ca string, endorsement []byte) {
		next, err := (&certs.Bundle{CA: ca, Endorsement: endorsement}).Accept(have, own, now)
		if err != nil {
			return
		}
		for _, c := range next {
			if !c.Equal(have[0]) && !c.Equal(endorsed) {
				t.Errorf("a CA without an endorsement is accepted: %v", c.Subject)
			}
		}
	})
}
