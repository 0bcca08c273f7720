package dtq

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ value, name, back string }{
		{`"email"`, "email", ""},
		{`"worker 1/a"`, "worker 1/a", ""},
		{`"тип 🚀"`, "тип 🚀", ""},
		{`"\u0442"`, "т", `"т"`},
		{`null`, "json:null", ""},
		{`""`, `json:""`, ""},
		{`"."`, `json:"."`, ""},
		{`".."`, `json:".."`, ""},
		{`5`, "json:5", ""},
		{`1.50`, "json:1.50", ""},
		{`false`, "json:false", ""},
		{`{"b" : [1, "é"]}`, `json:{"b":[1,"\u00e9"]}`, ""},
		{`"json:5"`, `json:"json:5"`, ""},
		{`"\u006ason:5"`, `json:"json:5"`, `"json:5"`},
		{`"a\u0000b"`, `json:"a\u0000b"`, ""},
		{`"a\u007f\u0085🚀"`, `json:"a\u007f\u0085\ud83d\ude80"`, ""},
		{`"\ufffd"`, `json:"\ufffd"`, ""},
		{`"\ud800"`, `json:"\ufffd"`, `"\ufffd"`}, // half a character is none
	} {
		name := nameOf(jsontext.Value(c.value))
		if name != c.name {
			t.Errorf("%s has the name %s, want %s", c.value, name, c.name)
		}
		want := c.back
		if want == "" {
			want = c.value
		}
		if got := valueOf(name); !sameValue(got, jsontext.Value(want)) {
			t.Errorf("%s is read back as %s, want %s", name, got, want)
		}
	}
}

// sameValue compares the canonical forms of two values.
func sameValue(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	if a.Canonicalize(lenient) != nil || b.Canonicalize(lenient) != nil {
		return false
	}
	return string(a) == string(b)
}

// Names that other clients gave are text, even if they look encoded.
func TestNamesOfOthers(t *testing.T) {
	for name, want := range map[string]string{
		"json:":        `"json:"`,
		"json:nonsens": `"json:nonsens"`,
		"json: 5":      `"json: 5"`,
		`json:"email"`: `"json:\"email\""`,
		"a\"b":         `"a\"b"`,
	} {
		if got := string(valueOf(name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestTypes(t *testing.T) {
	for value, want := range map[string]string{`null`: "", `""`: `json:""`, `"t"`: "t", `7`: "json:7"} {
		got := typeOf(jsontext.Value(value))
		if got != want || string(taskTypeOf(got)) != value {
			t.Errorf("%s has the type %q, which is read as %s", value, got, taskTypeOf(got))
		}
	}
}

// The HTTP API accepts every encoded name, unless it is too long, and valueOf decodes
// it.
func FuzzName(f *testing.F) {
	for _, seed := range []string{`"email"`, `null`, `5`, `"json:5"`, `{"a":[1,"\u0000"]}`, `"\ud83d\ude80"`, `""`, `"."`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v := jsontext.Value(data)
		if !utf8.Valid(data) || !v.IsValid(lenient) {
			return
		}
		name := nameOf(v)
		if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }) {
			t.Fatalf("%s has the name %q", data, name)
		}
		back := valueOf(name)
		if again := nameOf(back); again != name {
			t.Fatalf("%s: %q is read as %s, whose name is %q", data, name, back, again)
		}
		if taskTypeOf(typeOf(v)).Kind() != v.Kind() {
			t.Fatalf("%s as a type is read as %s", data, taskTypeOf(typeOf(v)))
		}
	})
}
