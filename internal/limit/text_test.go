package limit

import (
	"fmt"
	"testing"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
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
		if got := Clip(c.text, c.n); got != c.short {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.text, c.n, got, c.short)
		}
		if got := ClipMarked(c.text, c.n); got != c.mark {
			t.Errorf("ClipMarked(%q, %d) = %q, want %q", c.text, c.n, got, c.mark)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("日本語", 4)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(n, 0)
		got := Clip(s, n)
		if len(got) > n || s[:len(got)] != got || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("Clip(%q, %d) = %q", s, n, got)
		}
	})
}

// The number of remembered lines is bounded.
func TestRepeatsAreBounded(t *testing.T) {
	var f Repeats
	for i := range 10 * keys {
		f.Due(fmt.Sprint(i))
	}
	if len(f.seen) > keys {
		t.Errorf("%d lines are remembered", len(f.seen))
	}
}
