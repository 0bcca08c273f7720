package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// set are the rows that have a value.
func set(rows ...[]string) [][]string {
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" || row[1] == "-" })
}

// pageRows is how many rows are aligned with one another: a table without
// limit must not wait in memory for its end.
const pageRows = 500

// longTable is a table of any length, or with --json a line for each item.
type longTable struct {
	g    *globals
	rows [][]string // not yet written
}

func (t *longTable) add(item any, row func() []string) error {
	if t.g.json {
		return t.g.writeJSON(item)
	}
	t.rows = append(t.rows, plainCells(row()))
	if len(t.rows) < pageRows {
		return nil
	}
	err := t.g.table(t.rows)
	t.rows = t.rows[:0]
	return err
}

func (t *longTable) end() error {
	if t.g.json {
		return nil
	}
	return t.g.table(t.rows)
}

// table writes rows of aligned cells to stdout. The last cell of a row may have several
// lines; each stays in its column, so that a line never looks like a row.
func (g *globals) table(rows [][]string) error {
	w := tabwriter.NewWriter(g.stdout, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		end := len(cells) - 1
		last := strings.ReplaceAll(cells[end], "\t", "    ") // no cells of its own
		last = strings.ReplaceAll(last, "\n", "\n"+strings.Repeat("\t", end))
		row := append(slices.Clone(cells[:end]), last)
		if err := writePlain(w, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
