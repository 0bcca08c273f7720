package main

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// writeJSON writes v as one line.
func (g *globals) writeJSON(v any) error {
	line, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return write(g.stdout, string(line)+"\n")
}

// printf writes text for people to stdout.
func (g *globals) printf(format string, args ...any) error {
	return writePlain(g.stdout, fmt.Sprintf(format, args...))
}

// writePlain writes a text for people.
func writePlain(w io.Writer, text string) error { return write(w, plain(text)) }

// write writes a text unchanged.
func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
