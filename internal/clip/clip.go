// Package clip shortens texts of requests, documents and errors before they are repeated in an
// answer, an error or a log line.
package clip

import "unicode/utf8"

// To returns the beginning of s, at most n bytes. It ends with a whole character, so that
// valid UTF-8 stays valid.
func To(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Marked is To with an ellipsis after a text that was shortened.
func Marked(s string, n int) string {
	if short := To(s, n); len(short) < len(s) {
		return short + "…"
	}
	return s
}
