package clip

import (
	"testing"
	"unicode/utf8"
)

func TestTo(t *testing.T) {
	for _, c := range []struct {
		text  string
		n     int
		short string
		mark  string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abc", 2, "ab", "ab…"},
		{"aé", 2, "a", "a…"},
		{"é", 1, "", "…"},
		{"\xff\xfe\xfd", 2, "\xff\xfe", "\xff\xfe…"},
	} {
		if got := To(c.text, c.n); got != c.short {
			t.Errorf("To(%q, %d) = %q, want %q", c.text, c.n, got, c.short)
		}
		if got := Marked(c.text, c.n); got != c.mark {
			t.Errorf("Marked(%q, %d) = %q, want %q", c.text, c.n, got, c.mark)
		}
	}
}

func FuzzTo(f *testing.F) {
	f.Add("日本語", 4)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(n, 0)
		got := To(s, n)
		if len(got) > n || s[:len(got)] != got || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("To(%q, %d) = %q", s, n, got)
		}
	})
}
