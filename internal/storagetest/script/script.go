// Package script reads the lines of transcripts: of the machine (package fsm), the flusher, the archive and
// whole nodes. A line is a command with arguments, which datadriven.ParseLine splits: names, key=value, and
// key=(value,value).
package script

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Command is one line of a transcript.
type Command struct {
	Name  string
	IDs   []string // arguments without a value
	named map[string][]string
	t     testing.TB
}

// Of returns the command of a directive.
func Of(t testing.TB, d *datadriven.TestData) Command { return parsed(t, d.Cmd, d.CmdArgs) }

// Input returns the commands below a directive, one a line.
func Input(t testing.TB, d *datadriven.TestData) []Command {
	t.Helper()
	var list []Command
	for line := range strings.Lines(d.Input) {
		list = append(list, Line(t, line))
	}
	return list
}

// Line returns the command of a line.
func Line(t testing.TB, line string) Command {
	t.Helper()
	name, args, err := datadriven.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, name, args)
}

// Rest returns the command that stands behind the name of c, with the same values.
func (c Command) Rest() Command {
	if len(c.IDs) > 0 {
		c.Name, c.IDs = c.IDs[0], c.IDs[1:]
	}
	return c
}

func parsed(t testing.TB, name string, args []datadriven.CmdArg) Command {
	c := Command{Name: name, named: make(map[string][]string), t: t}
	for _, a := range args {
		if len(a.Vals) == 0 {
			c.IDs = append(c.IDs, a.Key)
			continue
		}
		c.named[a.Key] = a.Vals
	}
	return c
}

// List returns the values of a key.
func (c Command) List(key string) []string { return c.named[key] }

// Text returns the value of a key, "" if there is none.
func (c Command) Text(key string) string { return strings.Join(c.named[key], ",") }

// ID returns argument number i, "" if there are not so many.
func (c Command) ID(i int) string {
	if i < len(c.IDs) {
		return c.IDs[i]
	}
	return ""
}

// Has reports whether an argument without a value is there.
func (c Command) Has(flag string) bool {
	for _, id := range c.IDs {
		if id == flag {
			return true
		}
	}
	return false
}

// Number returns the number of a key, or another one if there is none.
func (c Command) Number(key string, otherwise int64) int64 {
	if v := c.named[key]; len(v) == 1 {
		return Number(c.t, v[0])
	}
	return otherwise
}

// Optional is nil if the command does not name the number.
func (c Command) Optional(key string) *int64 {
	if len(c.named[key]) == 0 {
		return nil
	}
	return new(c.Number(key, 0))
}

// OptionalText is nil if the command does not name the text.
func (c Command) OptionalText(key string) *string {
	if len(c.named[key]) == 0 {
		return nil
	}
	return new(c.Text(key))
}

// Duration returns the duration of a key, or another one if there is none.
func (c Command) Duration(key string, otherwise time.Duration) time.Duration {
	if text := c.Text(key); text != "" {
		return Duration(c.t, text)
	}
	return otherwise
}

// Number parses a number.
func Number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Duration parses a duration.
func Duration(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
