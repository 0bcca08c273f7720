package view

import (
	"fmt"
	"strings"
)

// OrDash keeps a column from being empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func Plural(n uint64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

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
