package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// The formats of output.
const (
	formatTable = "table" // for people, within 80 columns
	formatWide  = "wide"  // for people, with all columns
	formatJSON  = "json"  // for programs: one line for each item
)

var formats = []string{formatTable, formatWide, formatJSON}

// parseFormat reads the flag --output, which sets --json as well.
func (g *Globals) parseFormat(text string) (string, error) {
	if !slices.Contains(formats, text) {
		return "", fmt.Errorf("%q is not a format; write %s", text, strings.Join(formats, ", "))
	}
	g.JSON = text == formatJSON
	return text, nil
}

// Wide reports whether tables have all columns.
func (g *Globals) Wide() bool { return g.format == formatWide }

// WriteJSON writes v for programs, as one line of JSON.
func (g *Globals) WriteJSON(v any) error {
	line, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return Write(g.Out, Escaped(string(line))+"\n")
}

// Printf writes text for people to stdout.
func (g *Globals) Printf(format string, args ...any) error {
	return WritePlain(g.Out, fmt.Sprintf(format, args...))
}

// Print writes v for programs, or a text for people.
func (g *Globals) Print(v any, format string, args ...any) error {
	if g.JSON {
		return g.WriteJSON(v)
	}
	return g.Printf(format, args...)
}

// Details writes v for programs, or rows about it for people.
func (g *Globals) Details(v any, rows [][]string) error {
	if g.JSON {
		return g.WriteJSON(v)
	}
	return g.Table(rows)
}

// WritePlain writes a text for people.
func WritePlain(w io.Writer, text string) error { return Write(w, plain(text)) }

// Write writes a text unchanged.
func Write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// OrDash keeps a column from being empty.
func OrDash(text string) string { return cmp.Or(text, "-") }

// FirstLine returns the line of an error text that says what failed, mostly its first one.
func FirstLine(text string) string { return v1.ErrorLine(text) }

// Plural returns n and word, with an s unless n is 1; entry becomes entries.
func Plural[N int | int64 | uint64](n N, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if stem, ok := strings.CutSuffix(word, "ry"); ok {
		word = stem + "rie"
	}
	return fmt.Sprintf("%d %ss", n, word)
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

// written is the JSON form of the answer to a write, with the LSNs that show how durable
// the write is.
type written[T any] struct {
	Answer    T          `json:",embed"`
	Committed client.Ack `json:"committed,omitzero"`
}

// acked runs a function that may write. If the write took effect but did not reach the
// wanted ack level, acked prints a note on stderr and returns no error.
func (g *Globals) acked(ctx context.Context, do func(context.Context) error) error {
	if err := do(client.WithReceipt(ctx, &g.receipt)); err != nil {
		return err
	}
	if g.ack != client.AckObject || g.receipt.Committed() != client.AckQuorum {
		return nil
	}
	return WritePlain(g.Err, fmt.Sprintf("the change is committed, but not in the bucket yet (LSN %s); osqueue status shows the lag of the bucket\n", g.receipt.LSN()))
}

// Written returns the answer to a write as programs get it: with the receipt of all writes of this process.
func Written[T any](g *Globals, answer T) any {
	return written[T]{Answer: answer, Committed: g.receipt.Committed()}
}

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
