package outbox

import "testing"

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		glob, text string
		want       bool
	}{
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"mail.*", "mail.x", true},
		{"mail.*", "mail", false},
		{"*a*b", "xaab", true},
		{"*a*b", "xaabc", false},
		{"?", "", false},
		{"?b", "ab", true},
		{"a**c", "abc", true},
		{"a*", "ba", false},
	} {
		if got := MatchGlob(c.glob, c.text); got != c.want {
			t.Errorf("%q on %q: %v", c.glob, c.text, got)
		}
	}
}
