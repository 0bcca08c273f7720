package view

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Jobs and workers supply errors, logs, messages and names. Their text must not control
// the terminal of the reader: repaint it, set its title, or reverse the order of
// characters. So text for people shows control characters in a visible form, and JSON has
// them as escapes, which are the same to a program. Results and outputs stay unchanged.

// plain makes the control characters of a text visible, except newline and tab. It
// returns other text unchanged.
func plain(text string) string { return visible(text, "\n\t") }

// PlainLine does the same as plain for a text that must stay on one line and in one
// table cell.
func PlainLine(text string) string { return visible(text, "") }

// plainCells applies PlainLine to the cells of a row.
func plainCells(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = PlainLine(cell)
	}
	return out
}

// repeatsMost bounds the repetitions of one visible control character; a longer run is
// replaced by its length, because /dev/zero fills a log with NULs.
const repeatsMost = 4

func visible(text, kept string) string {
	var b strings.Builder
	for {
		n := printable(text)
		b.WriteString(text[:n])
		if text = text[n:]; text == "" {
			return b.String()
		}
		char, shown := firstVisible(text, kept)
		text = text[len(char):]
		if shown == char {
			b.WriteString(char)
			continue
		}
		n = 1
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
}

// printable returns the number of printable ASCII characters at the beginning of a text.
func printable(text string) int {
	n := 0
	for n < len(text) && ' ' <= text[n] && text[n] <= '~' {
		n++
	}
	return n
}

// firstVisible returns the first character of a text and its visible form. A byte that
// is not UTF-8 counts as a character: terminals may treat it as a control, and
// text/tabwriter treats 0xff as one. strconv.IsGraphic would also hide the joiners of
// emoji and some scripts.
func firstVisible(text, kept string) (char, shown string) {
	r, size := utf8.DecodeRuneInString(text)
	if char = text[:size]; 0 < size && printable(char) == size {
		return char, char
	}
	switch {
	case r == utf8.RuneError && size == 1:
		return char, fmt.Sprintf(`\x%02x`, char[0])
	case strings.ContainsRune(kept, r) || !isControl(r):
		return char, char
	}
	return char, strings.Trim(strconv.QuoteRune(r), "'")
}

func isControl(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// isEscaped reports whether Escaped replaces a character: one that JSON allows in strings, and that a terminal
// obeys or hides.
func isEscaped(r rune) bool { return r >= 0x7f && (isControl(r) || unicode.Is(unicode.Cf, r)) }

// Escaped returns a JSON document with escapes for the characters in its strings that control or deceive a
// terminal: they mean the same to programs.
func Escaped(document string) string {
	if strings.IndexFunc(document, isEscaped) < 0 {
		return document
	}
	var b strings.Builder
	for document != "" {
		r, size := utf8.DecodeRuneInString(document)
		if isEscaped(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		} else {
			b.WriteString(document[:size])
		}
		document = document[size:]
	}
	return b.String()
}
