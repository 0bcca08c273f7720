package work

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{newWorkerCommand(g)}
}
