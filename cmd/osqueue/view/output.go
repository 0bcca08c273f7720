package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The formats of output.
const (
	formatTable = "table" // for people, within 80 columns
	formatWide  = "wide"  // for people, with all columns
	formatJSON  = "json"  // for programs: one line for each item
)

var formats = []string{formatTable, formatWide, formatJSON}

// format is the flag --output. It sets Globals.JSON for the format of programs.
type format struct{ g *Globals }

func (f format) String() string {
	if f.g == nil || f.g.format == "" {
		return formatTable
	}
	return f.g.format
}

// Set takes the name of a format.
func (f format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("%q is not a format; write %s", text, strings.Join(formats, ", "))
	}
	f.g.format, f.g.JSON = text, text == formatJSON
	return nil
}

// Type names the value in the help.
func (format) Type() string { return "format" }

// jsonFormat is the flag --json, a shorter name of --output json.
type jsonFormat struct{ g *Globals }

func (f jsonFormat) String() string {
	if f.g != nil && f.g.JSON {
		return "true"
	}
	return "false"
}

// Set takes true or false.
func (f jsonFormat) Set(text string) error {
	switch text {
	case "true":
		return format(f).Set(formatJSON)
	case "false":
		return format(f).Set(formatTable)
	}
	return fmt.Errorf("%q: write true or false", text)
}

// Type lets the flag stand without a value.
func (jsonFormat) Type() string { return "bool" }

// Wide reports whether tables have all columns.
func (g *Globals) Wide() bool { return g.format == formatWide }

// WriteJSON writes v for programs, as one line of JSON.
func (g *Globals) WriteJSON(v any) error {
	line, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return Write(g.Out, escaped(string(line))+"\n")
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
