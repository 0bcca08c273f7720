package view

import (
	"io"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// wrapHelp breaks the long lines of help at words if stdout is a terminal: the terminal would
// break them within words, and put the rest below the names of flags.
func wrapHelp(g *Globals, root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		width, ok := g.screen()
		if !ok {
			help(c, args)
			return
		}
		out := c.OutOrStdout()
		var text strings.Builder
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, _ = io.WriteString(out, wrapLines(text.String(), width)) // as cobra, which ignores the error, too
	})
}

// flagLine is the part of a line about a flag or a command that is before the description.
var flagLine = regexp.MustCompile(`^ +(?:-\w, )?--[^ ]+(?: [^ ]+)?  +|^  [a-z-]+  +`)

// helpLeast is the width of a description below which it is not wrapped next to its flag.
const helpLeast = 20

// wrapLines breaks the lines that begin with a word, and the descriptions of flags and commands.
// Others are examples, which a reader copies.
func wrapLines(text string, width int) string {
	lines := joinParagraphs(strings.Split(text, "\n"), width)
	for i, line := range lines {
		head := flagLine.FindString(line)
		if len(line) <= width || head == "" && strings.HasPrefix(line, " ") {
			continue
		}
		room := width - len(head)
		if room < helpLeast {
			continue
		}
		lines[i] = head + strings.Join(fill(line[len(head):], room), "\n"+strings.Repeat(" ", len(head)))
	}
	return strings.Join(lines, "\n")
}

// fill breaks a text at spaces, into lines of at most width columns. A flag stays in one line, where
// ansi.Wordwrap would break it at a hyphen.
func fill(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// joinParagraphs makes one line of each paragraph that has a line longer than width. The source of a
// text has line breaks of its own, and lines broken at both would be ragged.
func joinParagraphs(lines []string, width int) (out []string) {
	isText := func(line string) bool { return line != "" && line[0] != ' ' }
	for i := 0; i < len(lines); {
		end, long := i, false
		for ; end < len(lines) && isText(lines[end]); end++ {
			long = long || ansi.StringWidth(lines[end]) > width
		}
		switch {
		case end == i:
			out = append(out, lines[i])
			end++
		case long:
			out = append(out, strings.Join(lines[i:end], " "))
		default:
			out = append(out, lines[i:end]...)
		}
		i = end
	}
	return out
}
