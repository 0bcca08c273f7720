package queue

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{
		newSubmitCommand(g),
		newRunCommand(g),
		newMapCommand(g),
		newDropCommand(g),
		newJobCommand(g),
		newDeadCommand(g),
		newQueueCommand(g),
		newCronCommand(g),
		newHookCommand(g),
		newBatchCommand(g),
		newEventsCommand(g),
		g.At(g.Watch(newStatsCommand(g))),
	}
}
