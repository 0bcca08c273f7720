package view

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// wrapHelp breaks the texts and flags of help at words if stdout is a terminal: the terminal would
// break them within words, and put the rest below the names of flags.
func wrapHelp(g *Globals, root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if width, ok := g.screen(); ok {
			c.Long = ansi.Wordwrap(c.Long, width, "")
			root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", width)))
		}
		help(c, args)
	})
}
