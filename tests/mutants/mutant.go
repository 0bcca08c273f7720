// Package mutants seeds deliberate defects to show that the tests detect them: a check that
// passes for a queue without its fence is no check.
//
// testdata/mutants.txt has the defects. Each is a snippet of a source file and its replacement. The
// compiler gets the changed file as an overlay, so that the tree itself is never changed and several
// mutants can be built at once.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Mutant is one deliberate defect.
type Mutant struct {
	Promise string // what it breaks
	Name    string // what was done wrong, in words
	By      Check  // catches it
	File    string // from the top of the tree
	Import  string // the line of an import that the bug needs and that the file does not have; "": none
	Edits   []Edit // more than one for what is guarded twice
}

// Edit is a change of a file: Old occurs once, and Bug stands in its place.
type Edit struct{ Old, Bug string }

// Check names the tests of which at least one must fail when a defect is present.
type Check struct {
	Pkg    string // from the top of the tree
	Tests  []string
	Flags  []string      // further flags of the test program
	Within time.Duration // bounds one run; 0: a default
}

// Read reads a table of mutants:
//
//	check NAME: PACKAGE TEST… FLAG… within=DURATION
//
//	[PROMISE] what was done wrong
//	by PACKAGE TEST
//	in FILE
//	import "PACKAGE"
//	<<<
//	OLD
//	===
//	BUG
//	>>>
//
// "by NAME" names a check from above. The line with import may be missing, and further edits may follow.
// The text of an edit ends before the last line break. Lines outside of edits that begin with # are comments.
func Read(path string) ([]Mutant, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Mutant
	checks := make(map[string]Check)
	rest := string(data)
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		word, value, _ := strings.Cut(line, " ")
		var m *Mutant
		if len(all) > 0 {
			m = &all[len(all)-1]
		}
		ok := true
		switch {
		case line == "", word == "#":
		case strings.HasPrefix(line, "["):
			all = append(all, Mutant{})
			m = &all[len(all)-1]
			m.Promise, m.Name, ok = strings.Cut(line[1:], "] ")
		case word == "check":
			var name string
			name, value, ok = strings.Cut(value, ": ")
			if checks[name], err = readCheck(value); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, line, err)
			}
		case m == nil:
			ok = false
		case word == "by":
			if m.By, ok = checks[value]; !ok {
				m.By, err = readCheck(value)
				ok = err == nil
			}
		case word == "in":
			m.File = value
		case word == "import":
			m.Import = value
		case line == "<<<":
			var e Edit
			if e.Old, rest, ok = strings.Cut(rest, "\n===\n"); ok {
				e.Bug, rest, ok = strings.Cut(rest, "\n>>>\n")
			}
			m.Edits = append(m.Edits, e)
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("%s, after %d mutants: %q is not understood", path, len(all), line)
		}
	}
	return all, nil
}

func readCheck(text string) (c Check, err error) {
	for i, word := range strings.Fields(text) {
		switch within, isTime := strings.CutPrefix(word, "within="); {
		case i == 0:
			c.Pkg = word
		case isTime:
			c.Within, err = time.ParseDuration(within)
		case strings.HasPrefix(word, "-"):
			c.Flags = append(c.Flags, word)
		default:
			c.Tests = append(c.Tests, word)
		}
	}
	if err == nil && len(c.Tests) == 0 {
		err = fmt.Errorf("the check %q names no test", text)
	}
	return c, err
}

// Mutated returns the file under root with the defect in it. It returns an error unless each
// snippet occurs exactly once: otherwise the code has changed and the table has not.
func (m *Mutant) Mutated(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	text := string(data)
	for _, e := range m.Edits {
		if n := strings.Count(text, e.Old); n != 1 || e.Old == e.Bug {
			return nil, fmt.Errorf("%s: %d times in %s, want once:\n%s", m.Name, n, m.File, e.Old)
		}
		text = strings.Replace(text, e.Old, e.Bug, 1)
	}
	if m.Import != "" {
		text = strings.Replace(text, "import (\n", "import (\n\t"+m.Import+"\n", 1)
	}
	return []byte(text), nil
}

// Overlay writes the changed file, and the list that `go build -overlay` takes, into
// dir, and returns the list's path.
func (m *Mutant) Overlay(root, dir string) (string, error) {
	data, err := m.Mutated(root)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	copied, path := filepath.Join(dir, filepath.Base(m.File)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: copied}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, list, 0o600)
}
