package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors, logs, messages and names come from jobs and from workers. What is in
// them must not command the terminal of who looks at them: repaint it, set its
// title, turn the order of characters round. So what is written for people shows
// such characters instead of sending them; JSON, and the results and outputs that
// are passed on to programs, are left as they are.

// plain is a text of any lines with its control characters made visible, all but
// newline and tab. A plain text stays as it is.
func plain(text string) string { return visible(text, "\n\t") }

// plainLine is plain for what has to stay one line, and one cell of a table.
func plainLine(text string) string { return visible(text, "") }

// plainCells are the cells of a row of a list.
func plainCells(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = plainLine(cell)
	}
	return out
}

// repeatsMost is how often a visible control character is written one after the
// other; of more of them the number is written: /dev/zero fills a log with NULs.
const repeatsMost = 4

func visible(text, kept string) string {
	var b strings.Builder
	for text != "" {
		char, shown := firstVisible(text, kept)
		text = text[len(char):]
		if shown == char {
			b.WriteString(char)
			continue
		}
		n := 1
		for next, _ := firstVisible(text, kept); next == char; next, _ = firstVisible(text, kept) {
			text = text[len(char):]
			n++
		}
		if n > repeatsMost {
			fmt.Fprintf(&b, "%s(×%d)", shown, n)
		} else {
			b.WriteString(strings.Repeat(shown, n))
		}
	}
	return b.String()
}

// firstVisible is the first character of a text, and how it is shown. Bytes that
// are not UTF-8 are characters of their own: terminals may take them for
// controls, and text/tabwriter takes 0xff for one. strconv.IsGraphic would also
// hide what emoji and some scripts are joined with.
func firstVisible(text, kept string) (char, shown string) {
	r, size := utf8.DecodeRuneInString(text)
	char = text[:size]
	switch {
	case r == utf8.RuneError && size == 1:
		return char, fmt.Sprintf(`\x%02x`, char[0])
	case strings.ContainsRune(kept, r) || !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
		return char, char
	}
	return char, strings.Trim(strconv.QuoteRune(r), "'")
}
