package view

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// NonEmptyRows are the rows that have a value.
func NonEmptyRows(rows ...[]string) [][]string {
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" || row[1] == "-" })
}

// pageRows is how many rows are aligned with one another: a table without
// limit must not wait in memory for its end.
const pageRows = 500

// LongTable is a table of any length, or with --json a line for each item.
type LongTable struct {
	G    *Globals
	Rows [][]string // not yet written
}

// Add prints item as a line of JSON, or collects the cells that row returns until a page is
// full.
func (t *LongTable) Add(item any, row func() []string) error {
	if t.G.JSON {
		return t.G.WriteJSON(item)
	}
	t.Rows = append(t.Rows, plainCells(row()))
	if len(t.Rows) < pageRows {
		return nil
	}
	err := t.G.Table(t.Rows)
	t.Rows = t.Rows[:0]
	return err
}

// End prints the last page.
func (t *LongTable) End() error {
	if t.G.JSON {
		return nil
	}
	return t.G.Table(t.Rows)
}

// Table writes rows of aligned cells to stdout. The last cell of a row may have several
// lines; each stays in its column, so that a line never looks like a row.
func (g *Globals) Table(rows [][]string) error {
	w := tabwriter.NewWriter(g.Out, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		end := len(cells) - 1
		last := strings.ReplaceAll(cells[end], "\t", "    ") // no cells of its own
		last = strings.ReplaceAll(last, "\n", "\n"+strings.Repeat("\t", end))
		row := append(slices.Clone(cells[:end]), last)
		if err := WritePlain(w, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
