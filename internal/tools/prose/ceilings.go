package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
)

// openerPercent is how many doc comments in a hundred may turn on a pronoun.
const openerPercent = 3

// A ceiling is the most findings of each kind that one package may have.
type ceiling [kinds]int

// ceilings are the packages that have more findings than newPackage allows.
type ceilings map[string]ceiling

// newPackage is the ceiling of a package without a row: openerPercent, and no
// forbidden term.
func newPackage(docs int) ceiling {
	return ceiling{opener: docs * openerPercent / 100}
}

func (c ceilings) of(p *figures) ceiling {
	allowed := newPackage(p.docs)
	if row, ok := c[p.dir]; ok {
		for k := range allowed {
			allowed[k] = max(allowed[k], row[k])
		}
	}
	return allowed
}

// check returns an error that names each package above its ceiling.
func (c ceilings) check(packages []*figures) error {
	names := [kinds]string{"openers", "doc comments without the name", "forbidden words", "forbidden identifiers"}
	var errs []error
	for _, p := range packages {
		allowed := c.of(p)
		for k := range allowed {
			if p.count[k] > allowed[k] {
				errs = append(errs, fmt.Errorf("%s has %d %s, at most %d are allowed; run prose -worst 1000 to see them",
					p.dir, p.count[k], names[k], allowed[k]))
			}
		}
	}
	return errors.Join(errs...)
}

// lowered returns the ceilings for the present figures. A row never grows; a
// package that needs no row has none.
func (c ceilings) lowered(packages []*figures) ceilings {
	low := ceilings{}
	for _, p := range packages {
		row, known := c[p.dir]
		if !known && len(c) > 0 {
			continue
		}
		if len(c) == 0 {
			row = p.count
		}
		for k := range row {
			row[k] = min(row[k], p.count[k])
		}
		if row != (ceiling{}) {
			low[p.dir] = row
		}
	}
	return low
}

// readCeilings reads rows of the form "DIR OPENERS NAMES WORDS IDENTIFIERS". A file
// that does not exist has no rows.
func readCeilings(path string) (ceilings, error) {
	c := ceilings{}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var dir string
		var row ceiling
		if _, err := fmt.Sscan(line, &dir, &row[opener], &row[docName], &row[word], &row[identifier]); err != nil {
			return nil, fmt.Errorf("%s:%d: %q is not a folder and four numbers: %w", path, n, line, err)
		}
		c[dir] = row
	}
	return c, lines.Err()
}

// writeCeilings replaces the file at path.
func writeCeilings(path string, c ceilings) error {
	var b strings.Builder
	b.WriteString("# The findings that old packages still have: openers, names, words, identifiers.\n# Numbers only shrink: make prose-update.\n")
	dirs := make([]string, 0, len(c))
	for dir := range c {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	for _, dir := range dirs {
		row := c[dir]
		fmt.Fprintf(&b, "%s %d %d %d %d\n", dir, row[opener], row[docName], row[word], row[identifier])
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
