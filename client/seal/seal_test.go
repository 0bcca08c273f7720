package seal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"osqueue/client"
)

func create(t *testing.T, scope string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	if _, err := Create(path, scope); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) *Ring {
	t.Helper()
	r, err := OpenRing(path)
	check(t, err)
	return r
}

func encrypt(t *testing.T, c client.Cipher, text, about string) []byte {
	t.Helper()
	out, err := c.EncryptWithContext(t.Context(), []byte(text), []byte(about))
	check(t, err)
	return out
}

func decrypts(t *testing.T, c client.Cipher, ciphertext []byte, about, want string) {
	t.Helper()
	got, err := c.DecryptWithContext(t.Context(), ciphertext, []byte(about))
	if err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

func refuses(t *testing.T, c client.Cipher, ciphertext []byte, about string, want error) {
	t.Helper()
	got, err := c.DecryptWithContext(t.Context(), ciphertext, []byte(about))
	if !errors.Is(err, want) || got != nil {
		t.Fatalf("got %q, %v, want %v", got, err, want)
	}
}

func TestOnlyTheTextOfTheJobIsRead(t *testing.T) {
	r := open(t, create(t, "shop"))
	c := encrypt(t, r, "secret", "job 1")
	decrypts(t, r, c, "job 1", "secret")
	refuses(t, r, c, "job 2", client.ErrTampered)
	for i := range c { // also the key id, whose key is missing then
		broken := append([]byte(nil), c...)
		broken[i] ^= 0x40
		if got, err := r.DecryptWithContext(t.Context(), broken, []byte("job 1")); got != nil || !errors.Is(err, client.ErrTampered) && !errors.Is(err, client.ErrNoKey) {
			t.Fatalf("byte %d changed: %q, %v", i, got, err)
		}
		if got, err := r.DecryptWithContext(t.Context(), c[:i], []byte("job 1")); got != nil || err == nil {
			t.Fatalf("cut to %d bytes: %q", i, got)
		}
	}
	if again := encrypt(t, r, "secret", "job 1"); string(again) == string(c) {
		t.Error("two encryptions gave the same bytes")
	}
}

func TestScopesAndRingsAreSeparate(t *testing.T) {
	a := open(t, create(t, "a"))
	c := encrypt(t, a, "secret", "x")
	refuses(t, open(t, create(t, "a")), c, "x", client.ErrNoKey)
	other, err := New(a.keys, "b")
	check(t, err)
	refuses(t, other, c, "x", client.ErrTampered)
	if _, err := New(a.keys, ""); !errors.Is(err, errNoScope) {
		t.Error(err)
	}
}

func TestRotation(t *testing.T) {
	path := create(t, "")
	ring := open(t, path)
	old := encrypt(t, ring, "old", "x")
	staged, err := Rotate(path, true)
	if err != nil || len(staged.Keys) != 2 || !staged.Keys[0].Primary || staged.Keys[1].Primary {
		t.Fatalf("%+v, %v", staged, err)
	}
	if staged.Keys[1].Created.IsZero() {
		t.Error("the new key has no time")
	}
	first, second := staged.Keys[0].ID, staged.Keys[1].ID
	if id, _ := keyOf(encrypt(t, open(t, path), "new", "x")[4:]); id != first {
		t.Errorf("a staged key encrypts: %d", id)
	}
	if _, err := Remove(path, first); err == nil || !strings.Contains(err.Error(), "primary") {
		t.Errorf("the primary key was removed: %v", err)
	}
	if _, err := Use(path, second); err != nil {
		t.Fatal(err)
	}
	young := encrypt(t, open(t, path), "new", "x")
	if id, _ := keyOf(young[4:]); id != second {
		t.Errorf("key %d encrypts, want %d", id, second)
	}
	decrypts(t, open(t, path), old, "x", "old")
	ring.keys.looked = time.Now().Add(-2 * lookAgainIn) // a ring that runs learns of the key when it meets it
	decrypts(t, ring, young, "x", "new")
	if _, err := Remove(path, first); err != nil {
		t.Fatal(err)
	}
	refuses(t, open(t, path), old, "x", client.ErrNoKey)
	for _, id := range []uint32{first, 0} {
		if _, err := Use(path, id); err == nil || !strings.Contains(err.Error(), "has no key") {
			t.Error(err)
		}
	}
}

// A ring that cannot be read again continues, and says so when a key is missing.
func TestTheFileIsLostLater(t *testing.T) {
	path := create(t, "")
	ring := open(t, path)
	c := encrypt(t, ring, "text", "x")
	foreign := encrypt(t, open(t, create(t, "")), "text", "x")
	check(t, os.Remove(path))
	ring.keys.looked = time.Now().Add(-2 * lookEvery)
	decrypts(t, ring, c, "x", "text")
	refuses(t, ring, foreign, "x", client.ErrNoKey)
	refuses(t, ring, foreign, "x", fs.ErrNotExist)
}

func TestFilesThatAreNoRings(t *testing.T) {
	path := create(t, "")
	if _, err := Create(path, ""); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a ring was replaced: %v", err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file stays: %v", err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	check(t, err)
	for name, content := range map[string]string{
		"empty": "", "text": "hello", "other": `{"a":1}`, "cut": string(text[:len(text)/2]),
		"later": strings.Replace(string(text), `"osqueue.keys": 1`, `"osqueue.keys": 7`, 1),
		"large": string(text) + strings.Repeat(" ", maxRing),
	} {
		file := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := OpenRing(file)
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "value") {
			t.Errorf("%s: the error may quote a key: %v", name, err)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	check(t, os.Chmod(path, 0o640))
	if _, err := OpenRing(path); !errors.Is(err, errOpen) {
		t.Errorf("a ring that others can read was opened: %v", err)
	}
}

func TestTwoWritersExcludeEachOther(t *testing.T) {
	path := create(t, "")
	check(t, os.WriteFile(path+".new", nil, 0o600))
	if _, err := Rotate(path, false); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Error(err)
	}
}

// brokenKEK is a key management service that cannot be reached.
type brokenKEK struct{ KEK }

var errAway = errors.New("the service is away")

func (brokenKEK) DecryptWithContext(context.Context, []byte, []byte) ([]byte, error) {
	return nil, errAway
}

func TestAServiceThatIsAwayIsTemporary(t *testing.T) {
	r := open(t, create(t, "a"))
	c := encrypt(t, r, "text", "x")
	away, err := New(brokenKEK{r.keys}, "a")
	check(t, err)
	refuses(t, away, c, "x", errAway)
	if _, err := away.DecryptWithContext(t.Context(), c, []byte("x")); errors.Is(err, client.ErrTampered) {
		t.Errorf("a fault of the service counts as a changed text: %v", err)
	}
}

func FuzzDecrypt(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keys.json")
	if _, err := Create(path, "a"); err != nil {
		f.Fatal(err)
	}
	r, err := OpenRing(path)
	if err != nil {
		f.Fatal(err)
	}
	good, err := r.EncryptWithContext(f.Context(), []byte("text"), []byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0, 0, 0, 5, 1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		plain, err := r.DecryptWithContext(t.Context(), in, []byte("x"))
		if err == nil && string(in) != string(good) {
			t.Fatalf("%x is read as %q", in, plain)
		}
	})
}

func FuzzParseRing(f *testing.F) {
	f.Add([]byte(`{"osqueue.keys":1,"scope":"a","keys":{"primaryKeyId":1,"key":[]}}`))
	f.Fuzz(func(_ *testing.T, in []byte) {
		if r, err := parse(in); err == nil {
			_, _ = r.primitive() // must not panic
			r.content("")
		}
	})
}
