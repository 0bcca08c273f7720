package clitest

import (
	"testing"
	"unicode"
)

// Evil is a text that clears the screen, sets a title in two ways, and changes the
// direction of writing.
const Evil = "\x1b[2Jevil\u009b1m\u202e\a"

// EvilShown is Evil as text for people shows it.
const EvilShown = `\x1b[2Jevil\u009b1m\u202e\a`

// Harmless fails the test if a text contains a character that controls a terminal.
func Harmless(t *testing.T, where, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s: %q at %d of\n%q", where, r, i, text)
			return
		}
	}
}
