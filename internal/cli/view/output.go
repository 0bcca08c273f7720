package view

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WriteJSON writes v as one line.
func (g *Globals) WriteJSON(v any) error {
	line, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return Write(g.Out, string(line)+"\n")
}

// Printf writes text for people to stdout.
func (g *Globals) Printf(format string, args ...any) error {
	return WritePlain(g.Out, fmt.Sprintf(format, args...))
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
