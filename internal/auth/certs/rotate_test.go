package certs_test

import (
	"os"
	"path/filepath"
	"testing"

	"osqueue/internal/auth/certs"
)

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
