package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
)

func newCertRevokeCommand(g *view.Globals) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "revoke NODE",
		Short: "Revoke the certificates of a node, and remove the node",
		Long: `Revokes all certificates of a node that were issued until now, for example because its
key was stolen, and removes the node from the cluster. Within a second every node that
the leader reaches closes the connections of the revoked node. The command needs a token
of the role admin.

The cluster has one voter less until another node takes the place. To let the node back
in, issue a new certificate (osqueue cert renew NODE), delete its data directory and
start it.

` + view.ExitHelp,
		Example: `  osqueue cert revoke n2 --yes`,
		Args:    view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return view.Usagef("osqueue cert revoke removes node %s from the cluster: give --yes", args[0])
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return revokeNode(ctx, g, c, args[0])
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "confirm the revocation")
	return cmd
}

// revokeNode asks the leader until it has answered, or ctx ends.
func revokeNode(ctx context.Context, g *view.Globals, c *client.Client, node string) error {
	hc, err := g.HTTPClient()
	if err != nil {
		return err
	}
	defer hc.CloseIdleConnections()
	for {
		done, again, err := askToRevoke(ctx, hc, c, node)
		if err == nil {
			if g.JSON {
				return g.WriteJSON(done)
			}
			was := "it was no member of the cluster"
			if len(done.Removed) > 0 {
				was = "it is no member of the cluster any more"
			}
			text := append([]string{fmt.Sprintf("the certificates of node %s are revoked; %s", node, was)}, voterNotes(c.StatusAll(ctx))...)
			return g.Printf("%s\n", strings.Join(text, "\n"))
		}
		if !again || ctx.Err() != nil {
			return fmt.Errorf("revoke the certificates of node %s: %w", node, err)
		}
		sleep.For(ctx, time.Second)
	}
}

// askToRevoke asks the leader once. again reports whether to ask again.
func askToRevoke(ctx context.Context, hc *http.Client, c *client.Client, node string) (done cluster.Revocation, again bool, err error) {
	nodes := c.StatusAll(ctx)
	i := leaderIndex(nodes)
	if i < 0 {
		return done, true, noLeaderAsked(nodes)
	}
	return cluster.AskToRevoke(ctx, hc, nodes[i].Server, node)
}
