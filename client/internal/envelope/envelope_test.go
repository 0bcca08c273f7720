package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestEnvelopesAreRead(t *testing.T) {
	for _, to := range []string{ToJob, ToCron} {
		raw := JSON(to, []byte("cipher"))
		if want := `{"osqueue.sealed":1,"to":"` + to + `","data":"Y2lwaGVy"}`; string(raw) != want {
			t.Errorf("got %s, want %s", raw, want)
		}
		if got, err := ParseJSON(raw); err != nil || got.To != to || string(got.Ciphertext) != "cipher" || !IsJSON(raw) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	moved := json.RawMessage(" {\"data\" : \"Y2lwaGVy\",\n\"to\":\"job\", \"osqueue.sealed\" : 1}")
	if got, err := ParseJSON(moved); err != nil || string(got.Ciphertext) != "cipher" || !IsJSON(moved) {
		t.Errorf("%s: %+v, %v", moved, got, err)
	}
	text := Text([]byte("cipher"))
	if got, err := ParseText(text); err != nil || string(got) != "cipher" || !IsText(text) || text != "osqueue.sealed:1:Y2lwaGVy" {
		t.Errorf("%s: %s, %v", text, got, err)
	}
}

func TestPlaintextHasNoMark(t *testing.T) {
	for _, raw := range []string{
		``, `null`, `1`, `"osqueue.sealed"`, `["osqueue.sealed",1]`, `{"a":{"osqueue.sealed":1}}`, `{"a":"{\"osqueue.sealed\":1}"}`,
		`{"sealed":1}`,
	} {
		if IsJSON(json.RawMessage(raw)) {
			t.Errorf("%s counts as encrypted", raw)
		}
	}
	for _, text := range []string{"", "failed", " osqueue.sealed:1:aa", "osqueue.sealed"} {
		if IsText(text) {
			t.Errorf("%q counts as encrypted", text)
		}
	}
}

func TestDamagedEnvelopesAreErrors(t *testing.T) {
	for raw, want := range map[string]error{
		`{"osqueue.sealed":2,"what":"ever"}`:                                   ErrVersion,
		`{"osqueue.sealed":"1","to":"job","data":"Y2lwaGVy"}`:                  ErrVersion,
		`{"osqueue.sealed":1}`:                                                 ErrDamaged,
		`{"osqueue.sealed":1,"to":"job"}`:                                      ErrDamaged,
		`{"osqueue.sealed":1,"to":"job","data":""}`:                            ErrDamaged,
		`{"osqueue.sealed":1,"to":"all","data":"Y2lwaGVy"}`:                    ErrDamaged,
		`{"osqueue.sealed":1,"to":"job","data":"Y2lwaGV"}`:                     ErrDamaged,
		`{"osqueue.sealed":1,"to":"job","data":"Y2lw\nGVy"}`:                   ErrDamaged,
		`{"osqueue.sealed":1,"to":"job","data":"Y2lwaGVy","x":1}`:              ErrDamaged,
		`{"osqueue.sealed":1,"osqueue.sealed":1,"to":"job","data":"Y2lwaGVy"}`: ErrDamaged,
		`{"osqueue.sealed":1,`:                                                 ErrDamaged,
	} {
		if !IsJSON(json.RawMessage(raw)) {
			t.Errorf("%s counts as plain", raw)
		}
		if _, err := ParseJSON(json.RawMessage(raw)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", raw, err, want)
		}
	}
	for text, want := range map[string]error{
		"osqueue.sealed:2:xx": ErrVersion, "osqueue.sealed:": ErrVersion, "osqueue.sealed:1:": ErrDamaged, "osqueue.sealed:1:*": ErrDamaged,
		"osqueue.sealed:" + strings.Repeat("9", 1000): ErrVersion,
	} {
		if _, err := ParseText(text); !errors.Is(err, want) || len(err.Error()) > 200 {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

func TestBindingsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{}, {""}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"ab"}, {"a", "b", ""}} {
		b := string(Bind(parts...))
		if seen[b] {
			t.Errorf("the binding of %q is that of others", parts)
		}
		seen[b] = true
	}
}

// An input with the mark never counts as plaintext, and what is read is written in the
// same way again.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"osqueue.sealed":1,"to":"job","data":"Y2lwaGVy"}`))
	f.Add([]byte(`{"osqueue.sealed":2}`))
	f.Add([]byte(`osqueue.sealed:1:Y2lwaGVy`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, err := ParseJSON(in); err == nil {
			if !IsJSON(in) && bytes.Contains(in, markText) {
				t.Fatalf("%q is read and counts as plain", in)
			}
			again, err := ParseJSON(JSON(got.To, got.Ciphertext))
			if err != nil || again.To != got.To || !bytes.Equal(again.Ciphertext, got.Ciphertext) {
				t.Fatalf("%q: %+v, then %+v, %v", in, got, again, err)
			}
		} else if !errors.Is(err, ErrVersion) && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%q: %v", in, err)
		}
		if c, err := ParseText(string(in)); err == nil && Text(c) != string(in) {
			t.Fatalf("%q is read as %x", in, c)
		}
	})
}
