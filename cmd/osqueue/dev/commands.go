package dev

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
// checkServe checks flags for the nodes as serve does.
func Commands(g *view.Globals, checkServe func(g *view.Globals, flags []string) error) []*cobra.Command {
	return []*cobra.Command{newDevCommand(g, checkServe)}
}
