package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
)

func newNodeCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("node", "Stop a node in order", "Commands about one node. They need a token of the role admin.")
	cmd.AddCommand(newNodeDrainCommand(g))
	return cmd
}

func newNodeDrainCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "drain [SERVER]",
		Short: "Stop a node in order, and wait for its end",
		Long: `Stops a node as SIGTERM does: the node is not ready any more, hands leadership over,
writes its state to the bucket if it led, answers the requests that it has, and ends.
Requests of clients that know all nodes continue. The node stays a member: start it again,
or remove it (osqueue cluster remove). SERVER may be left out if --servers names one.`,
		Example: `  osqueue node drain 10.0.0.2:8080`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				g.Servers = args
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				servers := c.Servers()
				if len(servers) != 1 {
					return view.Usagef("osqueue node drain: name the node: osqueue node drain HOST:PORT")
				}
				began := time.Now()
				done, err := c.Drain(ctx, servers[0])
				if err != nil {
					return err
				}
				for { // until another process answers, or none
					all := c.StatusAll(ctx)
					if all[0].Err != nil || all[0].Status.Pid != done.Pid {
						break
					}
					if !sleep.For(ctx, drainLook) {
						return fmt.Errorf("node %s still runs: %w", done.Node, ctx.Err())
					}
				}
				return g.Print(done, "node %s has stopped, after %s\n", done.Node, view.Short(time.Since(began)))
			})
		},
	}
}

// drainLook is the interval at which drain looks whether the node has ended.
const drainLook = 50 * time.Millisecond
