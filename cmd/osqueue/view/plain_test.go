package view

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"one\ttwo\nthree":     "one\ttwo\nthree",
		`C:\new "quoted" 'x'`: `C:\new "quoted" 'x'`,
		"é 漢字 العربية 👩\u200d💻\u00a0\ufffd": "é 漢字 العربية 👩\u200d💻\u00a0\ufffd",
		"\x1b]0;mine\a":                   `\x1b]0;mine\a`,
		"10%\r20%":                        `10%\r20%`,
		"a\b\v\f\x7f":                     `a\b\v\f\x7f`,
		"\u0085\u009b2J":                  `\u0085\u009b2J`,
		"\x9b2J \xff \xc3é":               `\x9b2J \xff \xc3é`,
		"\u2028\u2029":                    `\u2028\u2029`,
		"a\u202e\u202a\u2066\u2069\u200f": `a\u202e\u202a\u2066\u2069\u200f`,
		"\x00\x00\x00\x00":                `\x00\x00\x00\x00`,
		"a" + strings.Repeat("\x00", 4096) + "b" + strings.Repeat("\x1b", 5): `a\x00(×4096)b\x1b(×5)`,
		strings.Repeat("\xc3", 6) + "\xc3\xa9":                               `\xc3(×6)é`,
		"\n\n\n\n\n\n":                                                       "\n\n\n\n\n\n",
	} {
		got := plain(text)
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if again := plain(got); again != got {
			t.Errorf("%q is not plain: %q", got, again)
		}
	}
	if got := PlainLine("a\n\tb\x1b"); got != `a\n\tb\x1b` {
		t.Errorf("%q", got)
	}
}

// The cluster keeps payloads as they are, also with a name that occurs twice.
func TestJSONOfOddPayloads(t *testing.T) {
	var out strings.Builder
	g := &Globals{Out: &out}
	if err := g.WriteJSON(v1.Job{ID: "j", Payload: []byte(`{"a":1,"a":2}`)}); err != nil || !strings.Contains(out.String(), `"payload":{"a":1,"a":2}`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// Documents for programs do not control a terminal either, and mean the same.
func TestDocumentsWithControlCharacters(t *testing.T) {
	text := "a\x1b\x7f\u0085\u009b2J\n\u202eb\u2028\u2029\u2066 : # 漢字"
	var out strings.Builder
	g := &Globals{Out: &out, format: formatJSON}
	if err := g.WriteJSON(map[string]string{"x": text, text: "y"}); err != nil {
		t.Fatal(err)
	}
	if plain(out.String()) != out.String() {
		t.Errorf("the output controls a terminal: %q", out.String())
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(out.String()), &m); err != nil || m["x"] != text || m[text] != "y" {
		t.Errorf("it means %q, %v", m, err)
	}
}
