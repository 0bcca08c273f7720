package work

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadHeaderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]string{
		"# for the service\n\nAuthorization: Bearer s3cret\r\nX-A: 1\nX-A: 2\n": "",
		"Authorization Bearer s3cret":                                           "line 1",
		"A: b\nno name: s3cret":                                                 "line 2",
		"A: s3cret\x01":                                                         "line 1",
		strings.Repeat("A: s3cret\n", 10_000):                                   "at most",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := readHeaderFile(path)
		if want == "" {
			if err != nil || h.Get("authorization") != "Bearer s3cret" || len(h["X-A"]) != 2 {
				t.Errorf("%v, %v", h, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestRedacted(t *testing.T) {
	if got := redacted("http://u:s3cret@h/p?key=s3cret"); strings.Contains(got, "s3cret") || !strings.Contains(got, "h/p") {
		t.Error(got)
	}
}
