package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/internal/jsonscan"
)

// whole reports whether the scanner accepts in as one value.
func whole(in []byte) bool {
	s := jsonscan.New(in)
	_, ok := s.Raw()
	return ok && s.End()
}

func TestValues(t *testing.T) {
	for in, want := range map[string]bool{
		`0`: true, `-0`: true, `01`: false, `-`: false, `1.`: false, `.5`: false, `1.5e+3`: true, `1e`: false, `00`: false, `-01`: false,
		`"a\n\u00e9"`: true, `"\x"`: false, `"\u12g4"`: false, "\"\n\"": false, `"`: false, `"\`: false,
		`true`: true, `tru`: false, `null `: true, `nul`: false, ``: false, ` `: false,
		`[]`: true, `[1,]`: false, `[,]`: false, `[1 2]`: false, `{"a":1,"a":[{"b":null}]}`: true, `{"a"}`: false, `{"a":1,}`: false, `{1:1}`: false, `{"a\"":1}`: true,
		strings.Repeat("[", 64) + strings.Repeat("]", 64): true,
		strings.Repeat("[", 65) + strings.Repeat("]", 65): false, // deeper than it handles
	} {
		if got := whole([]byte(in)); got != want {
			t.Errorf("%.40q: accepted is %v", in, got)
		}
	}
}

func TestInts(t *testing.T) {
	for in, want := range map[string]int64{`5`: 5, ` -7`: -7, `0`: 0, `999999999999999999`: 999999999999999999} {
		s := jsonscan.New([]byte(in))
		if got, ok := s.Int(); !ok || got != want || !s.End() {
			t.Errorf("%q: %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{`1000000000000000000`, `-0`, `05`, `1.0`, `1e2`, `-`, ``, `"5"`, `null`} {
		s := jsonscan.New([]byte(in))
		if got, ok := s.Int(); ok {
			t.Errorf("%q: %d", in, got)
		}
	}
}

// The scanner accepts only values that are valid for the general decoders, and refuses only
// deeply nested ones of those that they accept.
func FuzzRaw(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e3,"x\u0041\\"],"b":{"":null}}`, `01`, `[1,2`, `"\ud800"`, "\"\x7f\"", ` true `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := whole(in)
		general := jsontext.Value(in).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		deep := strings.Count(string(in), "[")+strings.Count(string(in), "{") >= 64
		if got != general && !deep || got && !json.Valid(in) {
			t.Fatalf("%q: the scanner says %v, the general decoder %v, encoding/json %v", in, got, general, json.Valid(in))
		}
	})
}
