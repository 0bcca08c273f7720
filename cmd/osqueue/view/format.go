package view

import (
	"fmt"

	v1 "osqueue/client/api/v1"
)

// OrDash keeps a column from being empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// FirstLine returns the line of an error text that says what failed, mostly its first one.
func FirstLine(text string) string { return v1.ErrorLine(text) }

// Plural returns n and word, with an s unless n is 1.
func Plural(n uint64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// TextOr returns text, or otherwise if text is empty.
func TextOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// Clip shortens a text that would break the lines of a table.
func Clip(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// NoLSN is the LSN of what is not there.
const NoLSN = "0-0"
