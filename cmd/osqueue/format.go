package main

import (
	"fmt"
	"strings"
)

// orDash keeps a column from being empty.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func plural(n uint64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func textOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// clip shortens a text that would break the lines of a table.
func clip(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// noLSN is the LSN of what is not there.
const noLSN = "0-0"
