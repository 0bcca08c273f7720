package hooks

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func keyLine(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
}

func keysOf(t *testing.T, text string) *Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealedSecrets(t *testing.T) {
	t.Parallel()
	old, both, other := keysOf(t, keyLine(1)), keysOf(t, keyLine(2)+keyLine(1)), keysOf(t, keyLine(3))
	secret := []byte("0123456789abcdef01234567")
	sealed, id := old.Seal("h", secret)
	if id == "" || bytes.Contains(sealed, secret) {
		t.Fatalf("sealed as %q", sealed)
	}
	if again, _ := old.Seal("h", secret); bytes.Equal(again, sealed) {
		t.Error("two seals are equal")
	}
	if got, err := both.Open("h", sealed, id); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("with both keys: %q, %v", got, err)
	}
	if _, other := both.Seal("h", secret); other == id {
		t.Error("the first key does not seal")
	}
	if _, err := other.Open("h", sealed, id); !errors.Is(err, errNoKey) {
		t.Errorf("without the key: %v", err)
	}
	if _, err := old.Open("other hook", sealed, id); !errors.Is(err, errSealed) {
		t.Errorf("for another hook: %v", err)
	}
	none := &Keys{}
	clear, id := none.Seal("h", secret)
	if got, err := none.Open("h", clear, id); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("in clear: %q, %v", got, err)
	}
	if _, err := none.Open("h", []byte("x"), "y"); !errors.Is(err, errNoKey) {
		t.Errorf("no keys at all: %v", err)
	}
}

func TestKeyFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	for _, text := range []string{"", "\n", "short", keyLine(1) + "AAAA\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeys(path); !errors.Is(err, errKeyFile) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte(keyLine(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeys(path); err == nil {
		t.Error("a file that all can read was accepted")
	}
	if _, err := LoadKeys(path + "-none"); err == nil {
		t.Error("a file that is not there was accepted")
	}
}

func FuzzKeyFile(f *testing.F) {
	f.Add([]byte(keyLine(1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := parseKeys(data)
		if err != nil {
			return
		}
		sealed, id := k.Seal("h", []byte("s"))
		if got, err := k.Open("h", sealed, id); err != nil || string(got) != "s" {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
