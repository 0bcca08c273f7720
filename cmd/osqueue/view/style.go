package view

import (
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

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
