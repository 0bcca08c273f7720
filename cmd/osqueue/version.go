package main

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// version is set by the linker.
var version = "devel"

func newVersionCommand(g *view.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  view.UsageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if g.JSON {
				return g.WriteJSON(map[string]string{"version": g.Version})
			}
			return g.Printf("osqueue %s\n", g.Version)
		},
	}
	return cmd
}
