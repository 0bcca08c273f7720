package osqueue

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// plainSeeds are bodies that are plain on at least one route, and ones that nearly are.
var plainSeeds = []string{
	`{}`, `{"type":"t","payload":{"a":[1,"}",{"b":"\""}]}}`, ` { "type" : "t" , "maxAttempts" : 5 } `, `{"id":"a","priority":3}`, `{"id":"" ,"type":"t"}`,
	`{"workerId":"w","types":["a","b"],"waitMs":5}`, `{"workerId":"w","token":5}`, `{"maxAttempts":05}`, `{"a":1,"a":2}`, `{"a":[}}`, `{"a":1}x`,
	`{"status":"x","id":"a"}`, `{"types":["a","a"]}`, `{"types":[""]}`, `{"workerId":"\u0000"}`, "{\"type\":\"\xff\"}", `{"a":1,}`, `{"a":}`, `{"a" 1}`,
}

var addedID = regexp.MustCompile(`"id":"[0-9a-f-]{36}"}\s*$`)

// bothBodies returns the results of the general parser and of translate, without the random id.
func bothBodies(t *testing.T, path string, body []byte) (general, fast string) {
	t.Helper()
	h := &Handler{cfg: Config{}.withDefaults()}
	texts := make([]string, 2)
	natives := make([]bool, 2)
	for i, f := range []func(*http.Request, []byte) ([]byte, bool, error){h.parsed, h.translate} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(""))
		out, native, err := f(r, bytes.Clone(body))
		if err != nil {
			t.Fatal(err)
		}
		if r.URL.Path != path {
			t.Fatalf("a plain report of %q goes to %s", body, r.URL.Path)
		}
		texts[i], natives[i] = addedID.ReplaceAllString(string(out), `"id":"-"}`), native
	}
	if natives[0] != natives[1] {
		t.Fatalf("%s %q: native is %v in general and %v if plain", path, body, natives[0], natives[1])
	}
	return texts[0], texts[1]
}

func TestPlainBodies(t *testing.T) {
	for _, test := range []struct {
		path, body string
		plain      bool
	}{
		{v1.PathJobs, `{"type":"t","payload":{"a":[1,"}"]},"maxAttempts":3}`, true},
		{v1.PathJobs, `{"id":"a","type":"t"}`, true},
		{v1.PathJobs, `{"id":"" ,"type":"t"}`, false},
		{v1.PathJobs, `{"status":"unclaimed","id":"a"}`, false},
		{v1.PathJobs, `{"maxAttempts":1.5}`, false},
		{v1.PathJobs, `{"ty\u0070e":"t"}`, false},
		{v1.PathClaim, `{"workerId":"w","types":["a","b"]}`, true},
		{v1.PathClaim, `{"types":["a","a"]}`, false},
		{v1.PathClaim, `{"types":[1]}`, false},
		{beatPath, `{"workerId":"w"}`, true},
		{beatPath, `{"workerId":7}`, false},
		{beatPath, `{"workerId":"` + strings.Repeat("x", longName) + `"}`, false},
	} {
		if _, plain := scanPlain(test.path, []byte(test.body)); plain != test.plain {
			t.Errorf("%s %q: plain is %v", test.path, test.body, plain)
		}
	}
}

// A plain body becomes what the general parser makes of it.
func FuzzPlain(f *testing.F) {
	for _, seed := range plainSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{v1.PathClaim, beatPath, v1.PathJobs} {
			if _, plain := scanPlain(path, body); !plain {
				continue
			}
			if general, fast := bothBodies(t, path, body); strings.TrimSpace(general) != strings.TrimSpace(fast) {
				t.Fatalf("%s %q becomes %q in general and %q if plain", path, body, general, fast)
			}
		}
	})
}

func BenchmarkTranslate(b *testing.B) {
	h := &Handler{cfg: Config{}.withDefaults()}
	body := []byte(`{"type":"mail","payload":"` + strings.Repeat("x", 180) + `"}`)
	r := httptest.NewRequest(http.MethodPost, v1.PathJobs, strings.NewReader(""))
	for name, f := range map[string]func(*http.Request, []byte) ([]byte, bool, error){"general": h.parsed, "plain": h.translate} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 512)
			for b.Loop() {
				if _, _, err := f(r, append(buf, body...)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
