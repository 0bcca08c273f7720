package admin

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{
		newInitCommand(g), newJoinCommand(g), g.Watch(newStatusCommand(g)), newCertCommand(g), newTokenCommand(g), newKeyCommand(g),
		newContextCommand(g), newUICommand(g), newAuditCommand(g),
	}
}
