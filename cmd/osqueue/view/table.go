package view

import (
	"iter"
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
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
	var names []string
	if header {
		for _, c := range shown {
			names = append(names, c.Name)
		}
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		for j, c := range columns {
			if !c.Wide || g.Wide() {
				out[i] = append(out[i], cellText(row[j]))
			}
		}
	}
	return g.layout(shown, names, out)
}

// Table writes rows of aligned cells without a header to stdout. On a terminal and without -o wide
// long last cells are wrapped.
func (g *Globals) Table(rows [][]string) error {
	out := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			out[i] = append(out[i], cellText(cell))
		}
	}
	return g.layout(nil, nil, out)
}

// cellText returns the text of a cell, which may have several lines.
func cellText(text string) string { return strings.ReplaceAll(plain(text), "\t", "    ") }

// CutWidth returns the width to which lines are cut; ok is false if they are not, because stdout is no
// terminal or the format is wide.
func (g *Globals) CutWidth() (columns int, ok bool) {
	columns, ok = g.screen()
	return columns, ok && !g.Wide()
}

// gap is the number of spaces between two columns.
const gap = 2

// layout writes rows with cells of the same width. The last cell of a row may have several lines;
// each stays in its column, so that a line never looks like a row. On a terminal and without -o
// wide a table is at most as wide as the terminal. Ids and times are not cut for that, because
// readers copy ids, and half a time says nothing; only ids that are longer than a UUID lose their
// middle. columns is nil for details, whose last cells are wrapped.
func (g *Globals) layout(columns []Column, names []string, rows [][]string) error {
	if len(rows) == 0 && names == nil {
		return nil
	}
	var text string
	switch most, cut := g.CutWidth(); {
	case !g.OnScreen(): // lipgloss takes 0.1 ms for a row, and a pipe may get millions
		if names != nil {
			rows = append([][]string{names}, rows...)
		}
		text = aligned(rows)
	default:
		text = g.laidOut(columns, names, rows, 0)
		if over := lipgloss.Width(text) - most; cut && over > 0 {
			for i, c := range columns {
				if c.Name == columnID {
					shortenIDs(rows, i, over)
				}
			}
			text = g.laidOut(columns, names, rows, most)
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return Write(g.Out, b.String())
}

// shortenIDs cuts the middle out of the longest ids of a column, so that it takes over columns less if they can.
func shortenIDs(rows [][]string, column, over int) {
	longest := 0
	for _, row := range rows {
		longest = max(longest, lipgloss.Width(row[column]))
	}
	for _, row := range rows {
		row[column] = ShortenID(row[column], longest-over)
	}
}

// The columns that are not cut: ids, times, and those that are narrow anyway, such as figures.
const (
	columnID    = "ID"
	columnTime  = "TIME"
	columnLeast = 12
	idLeast     = 40 // columns of an id that remain; one of UUIDs has 36
)

// laidOut returns a table of a width; 0 is no limit.
func (g *Globals) laidOut(columns []Column, names []string, rows [][]string, width int) string {
	whole := make(map[int]int) // widths of the columns that are not cut
	for _, row := range append([][]string{names}, rows...) {
		for i, cell := range row {
			whole[i] = max(whole[i], lipgloss.Width(cell)+gap)
		}
	}
	if last := len(columns) - 1; last >= 0 {
		whole[last] -= gap
	}
	for i, w := range whole {
		if columns == nil && i > 0 || columns != nil && w > columnLeast+gap && columns[i].Name != columnID && columns[i].Name != columnTime {
			whole[i] = 0
		}
	}
	n := len(columns)
	if columns == nil {
		n = len(rows[0])
	}
	style := func(row, i int) lipgloss.Style {
		out := lipgloss.NewStyle()
		switch {
		case columns == nil || !g.Colour():
		case row == table.HeaderRow:
			out = styleHeader
		default:
			out = styleOf(columns[i].Name, rows[row][i])
		}
		if i < n-1 {
			out = out.PaddingRight(gap)
		}
		return out.Width(whole[i])
	}
	return table.New().Headers(names...).Rows(rows...).StyleFunc(style).Width(width).Wrap(columns == nil).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).String()
}

// aligned returns a table for a pipe or a file.
func aligned(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		indent := 0
		for i, cell := range row[:len(row)-1] {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)+gap))
			indent += widths[i] + gap
		}
		b.WriteString(strings.ReplaceAll(row[len(row)-1], "\n", "\n"+strings.Repeat(" ", indent)) + "\n")
	}
	return b.String()
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

// The styles of texts on a terminal.
var (
	styleHeader = lipgloss.NewStyle().Bold(true)
	styleGood   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleWarn   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	styleBad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// wordStyles are the styles of words in the columns of stateColumns.
var wordStyles = map[string]lipgloss.Style{
	"running": styleGood, "leader": styleGood, "active": styleGood,
	"cancelled": styleWarn, "blocked": styleWarn, "paused": styleWarn, "standby": styleWarn, "candidate": styleWarn,
	"dead": styleBad, "unreachable": styleBad, "fenced": styleBad, "refused": styleBad, "revoked": styleBad, "expired": styleBad,
}

// stateColumns are the columns whose words have a style.
var stateColumns = map[string]bool{"STATUS": true, "STATE": true, "FENCE": true, "LIMITS": true, "NEXT": true}

// screen returns the width of the terminal that stdout is; ok is false if it is none.
func (g *Globals) screen() (columns int, ok bool) {
	columns, _, ok = g.screenSize()
	return columns, ok
}

// screenSize is screen with the height of the terminal.
func (g *Globals) screenSize() (columns, rows int, ok bool) {
	if g.Screen != nil {
		return g.Screen()
	}
	file, isFile := g.Out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(int(file.Fd()))
	return columns, rows, err == nil && columns > 0
}

// Colour reports whether texts on stdout have styles: if it is a terminal, TERM is not
// dumb, and NO_COLOR is not set (https://no-color.org).
func (g *Globals) Colour() bool {
	_, ok := g.screen()
	return ok && g.Getenv("NO_COLOR") == "" && g.Getenv("TERM") != "dumb"
}

// styleOf returns the style of a cell of a column.
func styleOf(column, cell string) lipgloss.Style {
	switch {
	case stateColumns[column]:
		word, _, _ := strings.Cut(cell, " ")
		return wordStyles[strings.TrimSuffix(word, ",")]
	case column == "DEAD" && cell != "0" && cell != "-":
		return styleBad
	}
	return lipgloss.NewStyle()
}
