package top

import (
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// leastInterval bounds the load of a screen that stays open.
const leastInterval = 200 * time.Millisecond

// Commands returns the commands of this package.
func Commands(g *view.Globals) []*cobra.Command { return []*cobra.Command{newCommand(g)} }

func newCommand(g *view.Globals) *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch types, workers and nodes on a screen",
		Long: `Shows the nodes, the rates of the last half hour, and the types or the workers, and
refreshes them. The command does not change the queue.

Keys: tab switches between types, workers and nodes, s changes the order of types,
the arrow keys and page keys scroll, space stops and continues, q quits.

` + view.ExitHelp,
		Args: view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case every < leastInterval:
				return view.Usagef("--interval %v: must be at least %v", every, leastInterval)
			case g.JSON:
				return view.Usagef("osqueue top is a screen for people; for programs use osqueue stats --json or osqueue queue ls --json")
			case !g.OnScreen():
				return view.Usagef("osqueue top needs a terminal; osqueue status and osqueue queue ls print once")
			}
			c, err := g.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			m := newModel(g, &poller{c: c, timeout: g.Timeout}, every)
			_, err = tea.NewProgram(m, tea.WithContext(cmd.Context()), tea.WithInput(g.In), tea.WithOutput(g.Out), tea.WithoutSignalHandler()).Run()
			if errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
				return nil // SIGTERM is an orderly end, as q is
			}
			return err
		},
	}
	view.SpanVar(cmd.Flags(), &every, "interval", 2*time.Second, "time between two polls of the cluster")
	return cmd
}
