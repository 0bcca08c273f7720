package view

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

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
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

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
