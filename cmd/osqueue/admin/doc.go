// Package admin has the commands about the cluster itself.
//
// An operator wants to know whether the cluster works: which node leads, how far the
// bucket lags behind, whether the clocks agree. The command status (status.go) asks every node,
// and shows the nodes, the members as the leader sees them, and the bucket with its cost. If no
// node leads, it prints what is known and the exit status is 1.
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
