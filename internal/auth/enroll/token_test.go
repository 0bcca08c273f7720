package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"reflect"
	"strings"
	"testing"

	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
)

func foreignRequest(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "node n1"}, DNSNames: []string{"n1.test", "localhost"},
	}, key)
	check(t, err)
	return der
}

func TestToken(t *testing.T) {
	want := Token{Secret: auth.New(), Name: "n4", Pins: []certs.Pin{{1}, {2}}, Addresses: []string{"10.0.0.1:8080", "[::1]:8080"}}
	got, err := ParseToken(" " + want.String() + "\n")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	text := want.String()
	for _, bad := range []string{"", "osqj_", text[:len(text)-1], text[1:], strings.Replace(text, ".", "", 1), strings.ToUpper(text), want.Secret.Text} {
		if _, err := ParseToken(bad); err == nil || len(bad) > len(tokenPrefix) && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseToken(%q) is %v", bad, err)
		}
	}
}

// The error says which part of a token is wrong.
func TestTokensWithoutAPart(t *testing.T) {
	pins, addresses := []certs.Pin{{1}}, []string{"10.0.0.1:8080"}
	for want, bad := range map[string]Token{
		"it has 0 pins; must be 1 to 4":      {Addresses: addresses},
		"it has 5 pins; must be 1 to 4":      {Pins: make([]certs.Pin, 5), Addresses: addresses},
		"it has 0 addresses; must be 1 to 9": {Pins: pins},
	} {
		bad.Secret, bad.Name = auth.New(), "n4"
		if _, err := ParseToken(bad.String()); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzParseToken checks that a text that is read is written as it was, and that nothing panics.
func FuzzParseToken(f *testing.F) {
	t := Token{Secret: auth.New(), Name: "n4", Pins: []certs.Pin{{1}}, Addresses: []string{"h:1"}}
	f.Add(t.String())
	f.Add("osqj_e30.00000000")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := ParseToken(text)
		if err != nil {
			return
		}
		if again, err := ParseToken(read.String()); err != nil || !reflect.DeepEqual(again, read) {
			t.Errorf("%+v is read again as %+v (%v)", read, again, err)
		}
	})
}

// FuzzReadRequest reads certificate requests of strangers.
func FuzzReadRequest(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		if public, err := certs.ReadRequest(der); err == nil && len(public) == 0 {
			t.Error("a request without a key was read")
		}
	})
}
