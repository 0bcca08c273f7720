package view

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is the header of a column of a table.
type Column struct {
	Name string
	Wide bool // shown with -o wide only, so that the table fits 80 columns without it
}

// Columns returns the columns with these names. A name behind a "+" is shown with -o wide
// only.
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		rest, wide := strings.CutPrefix(name, "+")
		columns[i] = Column{Name: rest, Wide: wide}
	}
	return columns
}

// Shorten cuts a text to a width, and marks the cut.
func Shorten(text string, width int) string { return ansi.Truncate(text, width, "…") }

// CutLines cuts the lines of a text to a width.
func CutLines(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, end := strings.CutSuffix(line, "\n")
		b.WriteString(Shorten(rest, width))
		if end {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// ShortenID cuts the middle out of an id that is wider than idLeast, or than width if that is more. Its
// beginning and its end often differ from those of other ids.
func ShortenID(id string, width int) string {
	width, whole := max(width, idLeast), ansi.StringWidth(id)
	if whole <= width {
		return id
	}
	end := ansi.TruncateLeft(id, whole-(width-1)/2, "")
	if ansi.StringWidth(end) > (width-1)/2 { // it begins with a half of a wide character
		end = ansi.TruncateLeft(id, whole-(width-1)/2+1, "")
	}
	return ansi.Truncate(id, width/2, "") + "…" + end
}

// NonEmptyRows are the rows that have a value.
func NonEmptyRows(rows ...[]string) [][]string {
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" || row[1] == "-" })
}

// pageRows is how many rows are aligned with one another: a table without
// limit must not wait in memory for its end.
const pageRows = 500

// LongTable is a table of any length, or with --json a line for each item.
type LongTable struct {
	G       *Globals
	Columns []Column

	rows   [][]string // not yet written
	headed bool       // the header is written
}

// Add prints item for programs, or collects the cells that row returns until a page is
// full.
func (t *LongTable) Add(item any, row func() []string) error {
	if t.G.JSON {
		return t.G.WriteJSON(item)
	}
	t.rows = append(t.rows, plainCells(row()))
	if len(t.rows) < pageRows {
		return nil
	}
	return t.page()
}

// End prints the last page.
func (t *LongTable) End() error {
	if t.G.JSON {
		return nil
	}
	return t.page()
}

func (t *LongTable) page() error {
	err := t.G.grid(t.Columns, t.rows, !t.headed)
	t.rows, t.headed = t.rows[:0], true
	return err
}

// TableOf writes a header, and rows of aligned cells below it, to stdout.
func (g *Globals) TableOf(columns []Column, rows [][]string) error {
	return g.grid(columns, rows, true)
}

// grid writes the cells of the columns that the format shows.
func (g *Globals) grid(columns []Column, rows [][]string, header bool) error {
	shown := make([]Column, 0, len(columns))
	for _, c := range columns {
		if !c.Wide || g.Wide() {
			shown = append(shown, c)
		}
	}
	var out [][]string
	if header {
		names := make([]string, len(shown))
		for i, c := range shown {
			names[i] = g.paint(styleHeader, c.Name)
		}
		out = append(out, names)
	}
	for _, row := range rows {
		cells := make([]string, 0, len(shown))
		for i, c := range columns {
			if !c.Wide || g.Wide() {
				cells = append(cells, g.paintCell(c.Name, plain(row[i])))
			}
		}
		out = append(out, cells)
	}
	return g.align(out, shown)
}

// Table writes rows of aligned cells without a header to stdout. On a terminal and without -o wide
// long last cells are wrapped.
func (g *Globals) Table(rows [][]string) error {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for j, cell := range row {
			out[i][j] = plain(cell)
		}
	}
	return g.align(out, nil)
}

// CutWidth returns the width to which lines are cut; ok is false if they are not, because stdout is no
// terminal or the format is wide.
func (g *Globals) CutWidth() (columns int, ok bool) {
	columns, ok = g.screen()
	return columns, ok && !g.Wide()
}

// gap separates two columns.
const gap = "  "

// align writes rows with cells of the same width. The last cell of a row may have several
// lines; each stays in its column, so that a line never looks like a row. On a terminal
// and without -o wide, the widest of the columns are cut, and then a line that is too long.
func (g *Globals) align(rows [][]string, columns []Column) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	most := 0
	if width, ok := g.CutWidth(); ok {
		most = width
		narrow(rows, widths, columns, most)
		if columns == nil {
			wrapLast(rows, widths, most)
		}
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, widths, most)
	}
	return Write(g.Out, b.String())
}

const (
	columnLeast = 12 // columns of a cell that narrow leaves
	idLeast     = 40 // those of an id; one of UUIDs has 36
	lastShown   = 16 // columns of the last cells, of which long texts are cut anyway
)

// The columns that are not cut as others: readers copy ids, so that they are cut last, and half a time
// says nothing.
const (
	columnID   = "ID"
	columnTime = "TIME"
)

// narrow cuts the cells of the widest columns, so that the others are on the screen: one job type
// with a long name would push all figures off it.
func narrow(rows [][]string, widths []int, columns []Column, most int) {
	over := -most
	for _, w := range widths {
		over += w + len(gap)
	}
	last := 0
	for _, row := range rows {
		last = max(last, min(ansi.StringWidth(row[len(row)-1]), lastShown))
	}
	isID := func(i int) bool { return i < len(columns) && columns[i].Name == columnID }
	over = shrink(widths, over+last, columnLeast, func(i int) bool {
		return i < len(columns) && columns[i].Name != columnTime && !isID(i)
	})
	shrink(widths, over, idLeast, isID)
	for _, row := range rows {
		for i := range row[:len(row)-1] {
			if isID(i) {
				row[i] = ShortenID(row[i], widths[i])
			} else {
				row[i] = Shorten(row[i], widths[i])
			}
		}
	}
}

// shrink reduces the largest widths of some columns, each down to least, by over in all, and returns
// the part of over that remains.
func shrink(widths []int, over, least int, column func(i int) bool) int {
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if column(i) && w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return over
}

// wrapLeast is the least width, in columns, to which wrapLast wraps.
const wrapLeast = 20

// wrapLast wraps the last cells of full rows, such as the error of a job, so that they can be read
// to their end on a screen of most columns.
func wrapLast(rows [][]string, widths []int, most int) {
	room := most
	for _, w := range widths {
		room -= w + len(gap)
	}
	for _, row := range rows {
		if last := len(row) - 1; last == len(widths) && room >= wrapLeast {
			row[last] = ansi.Wrap(row[last], room, "")
		}
	}
}

// writeRow writes one row, in lines of at most most columns; 0 is no limit.
func writeRow(b *strings.Builder, row []string, widths []int, most int) {
	end := len(row) - 1
	last := strings.Split(strings.ReplaceAll(row[end], "\t", "    "), "\n")
	for n, text := range last {
		var line strings.Builder
		for i, cell := range row[:end] {
			if n > 0 {
				cell = ""
			}
			fmt.Fprintf(&line, "%s%s%s", cell, strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)), gap)
		}
		line.WriteString(text)
		whole := strings.TrimRight(line.String(), " ")
		if most > 0 {
			whole = ansi.Truncate(whole, most, "…")
		}
		b.WriteString(whole + "\n")
	}
}

// PrintAll prints all items as a table, or with --json a line for each item.
func PrintAll[T any](g *Globals, columns []Column, items iter.Seq2[T, error], row func(T) []string) error {
	t := &LongTable{G: g, Columns: columns}
	for item, err := range items {
		if err != nil {
			return err
		}
		if err := t.Add(item, func() []string { return row(item) }); err != nil {
			return err
		}
	}
	return t.End()
}
