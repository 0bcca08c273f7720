package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

const (
	watchDefault = 2 * time.Second
	watchLeast   = 100 * time.Millisecond
)

// Control sequences of a screen that is redrawn: they go to its first cell, erase the rest
// of a line, and erase what stands below.
const (
	screenHome  = "\x1b[H"
	screenEmpty = "\x1b[2J" + screenHome
	lineRest    = "\x1b[K"
	screenRest  = "\x1b[J"
)

// Watch adds --watch to a command that only reads. With it the command runs again and
// again until ctx ends; a terminal shows the newest output only, as much of it as fits. Errors of
// the cluster are shown and do not end it, because a cluster without a leader has one again soon.
func (g *Globals) Watch(cmd *cobra.Command) *cobra.Command {
	every := watchDefault
	flags := cmd.Flags()
	flags.VarP(SpanFrom(&every, watchLeast), "watch", "w", "show the output again at this interval, until Ctrl-C")
	flag := flags.Lookup("watch")
	flag.NoOptDefVal, flag.DefValue = watchDefault.String(), ""
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !flags.Changed("watch") {
			return once(cmd, args)
		}
		w := &watcher{g: g, command: cmd.CommandPath(), every: every}
		return w.run(cmd.Context(), func() error { return once(cmd, args) })
	}
	return cmd
}

// Read adds --at, --bucket and --watch to a command that only reads.
func (g *Globals) Read(cmd *cobra.Command) *cobra.Command { return g.At(g.Watch(cmd)) }

// watcher repeats a command.
type watcher struct {
	g       *Globals
	command string
	every   time.Duration
	drawn   bool
}

func (w *watcher) run(ctx context.Context, once func() error) error {
	ticks := time.NewTicker(w.every)
	defer ticks.Stop()
	for {
		columns, _ := w.g.screen()
		stderr := w.g.Err
		var notes bytes.Buffer
		if w.redraws() {
			w.g.Err = &notes // they would scroll the screen
		}
		output, err := w.g.Capture(columns, once)
		w.g.Err = stderr
		if ctx.Err() != nil {
			return nil // Ctrl-C is the orderly end
		}
		if errors.As(err, new(*UsageError)) {
			return err
		}
		if err := w.show(output, notes.String(), err); err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// OnScreen reports whether stdout is a terminal.
func (g *Globals) OnScreen() bool {
	_, ok := g.screen()
	return ok
}

// Capture runs a function and returns what it writes to stdout, in the form for a terminal
// of that width if stdout is one.
func (g *Globals) Capture(width int, once func() error) (string, error) {
	var b bytes.Buffer
	out, screen, ok := g.Out, g.Screen, g.OnScreen()
	g.Out, g.Screen = &b, func() (int, int, bool) { return width, 0, ok }
	err := once()
	g.Out, g.Screen = out, screen
	return b.String(), err
}

// redraws reports whether each output replaces the one before.
func (w *watcher) redraws() bool { return w.g.OnScreen() && !w.g.JSON }

// show writes an output, the notes below it, and the error that ended the command. Of an output that
// is higher than the screen it writes the beginning: the rest would scroll that away.
func (w *watcher) show(output, notes string, failed error) error {
	if !w.redraws() {
		if w.drawn && !w.g.JSON && output != "" {
			output = "\n" + output
		}
		w.drawn = true
		w.g.PrintError(failed)
		return Write(w.g.Out, output)
	}
	head := fmt.Sprintf("%s  every %s  %s\n\n", w.command, SpanText(w.every), time.Now().Format(time.TimeOnly))
	if failed != nil {
		notes += "\n" + plain(Explain(failed, w.g.Timeout)) + "\n"
	}
	if columns, rows, _ := w.g.screenSize(); rows > 0 {
		output = firstRows(output, columns, rows-1-rowsOf(head, columns)-rowsOf(notes, columns))
	}
	start := screenHome
	if !w.drawn {
		start = screenEmpty
	}
	w.drawn = true
	return Write(w.g.Out, start+strings.ReplaceAll(head+output+notes, "\n", lineRest+"\n")+screenRest)
}

// rowsOf returns the rows of a screen that complete lines take.
func rowsOf(text string, columns int) (rows int) {
	for line := range strings.Lines(text) {
		width := ansi.StringWidth(strings.TrimSuffix(line, "\n"))
		rows += max(1, (width+columns-1)/columns)
	}
	return rows
}

// firstRows returns text if it takes at most rows rows, else its first lines and how many more there are.
func firstRows(text string, columns, rows int) string {
	if rowsOf(text, columns) <= rows {
		return text
	}
	var shown strings.Builder
	more := uint64(0)
	for line := range strings.Lines(text) {
		if rows -= rowsOf(line, columns); rows < 1 {
			more++
			continue
		}
		shown.WriteString(line)
	}
	return shown.String() + "… " + Plural(more, "more line") + "\n"
}
