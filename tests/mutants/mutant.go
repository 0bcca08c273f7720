// Package mutants seeds deliberate defects to show that the tests detect them: a check that
// passes for a queue without its fence is no check.
//
// A Mutant is a snippet of a source file and its replacement. The compiler gets the changed
// file as an overlay, so that the tree itself is never changed and several mutants can be built
// at once.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one deliberate defect.
type Mutant struct {
	Name string // what was done wrong, in words
	File string // from the top of the tree
	Old  string // occurs once in the file
	Bug  string // stands in its place
	Also []Edit // further changes of the file, for what is guarded twice
	// Import is the line of an import that Bug needs and that the file does not have; "": none.
	Import string
}

// Edit is a further change of a Mutant's file: Old occurs once.
type Edit struct{ Old, Bug string }

// Mutated returns the file under root with the defect in it. It returns an error unless the
// snippet occurs exactly once: otherwise the code has changed and the table has not.
func (m Mutant) Mutated(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	text := string(data)
	for _, e := range append([]Edit{{m.Old, m.Bug}}, m.Also...) {
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
func (m Mutant) Overlay(root, dir string) (string, error) {
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
