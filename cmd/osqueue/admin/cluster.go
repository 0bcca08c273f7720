package admin

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newClusterCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("cluster", "Show and change the members of the cluster",
		`Shows and changes the members of the cluster, while it runs. The changes need a leader
and a token of the role admin. A change after which no majority of the voters would answer
is refused.`)
	cmd.AddCommand(g.Watch(newClusterListCommand(g)), newClusterAddCommand(g), newClusterRemoveCommand(g),
		memberCommand(g, v1.ActionPromote, "Give a node without a vote a vote",
			`Gives a vote to a node that was added with --non-voter, or was demoted. The node must answer
and have the leader's log.`),
		memberCommand(g, v1.ActionDemote, "Take a node's vote; it stays a member",
			`Takes the vote of a node. It stays a member without a vote until it is promoted. The leader
cannot be demoted: transfer the leadership first.`),
		newClusterTransferCommand(g), newClusterRecoverCommand(g))
	return cmd
}

func newClusterListCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the members, as the leader sees them",
		Long: `Lists the members, as the leader sees them. A joining node gets a vote when it has the
log; a non-voter stays without one; an admitted node may join and has not come. CONTACT is
the time since the member answered, LAG the number of log entries that it lacks, LEVEL the
highest feature level of its release.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Members(ctx)
			if err != nil {
				return err
			}
			if g.JSON {
				return g.WriteJSON(list)
			}
			return memberTable(g, list)
		}),
	}
}

func memberTable(g *view.Globals, list []v1.Member) error {
	columns := view.Columns("NODE", "STATE", "CONTACT", "LAG", "HTTP ADDRESS", "+RAFT ADDRESS", "+INSTANCE", "VERSION", "LEVEL")
	var rows [][]string
	voters := 0
	for _, m := range list {
		_, instance, _ := strings.Cut(m.ServerID, "~")
		state := map[string]string{"nonVoter": "non-voter"}[m.State]
		switch {
		case m.Leader:
			state = "leader"
		case state == "":
			state = m.State
		}
		if m.State == "voter" {
			voters++
		}
		rows = append(rows, []string{
			m.Name, state, contactText(m.LastContactMs, !m.Leader && m.ServerID != ""), orDash(m.Lag, indexText), view.OrDash(m.HTTPAddress),
			view.OrDash(m.RaftAddress), view.OrDash(instance), view.OrDash(m.Version), levelText(m.Level),
		})
	}
	if err := g.TableOf(columns, rows); err != nil {
		return err
	}
	if note := evenVoters(voters); note != "" {
		return g.Printf("%s\n", note)
	}
	return nil
}

func levelText(level uint32) string {
	if level == 0 {
		return "-"
	}
	return strconv.FormatUint(uint64(level), 10)
}

func newClusterAddCommand(g *view.Globals) *cobra.Command {
	var in v1.NewMember
	cmd := &cobra.Command{
		Use:   "add NAME ADDRESS",
		Short: "Admit a node to the cluster",
		Long: `Admits the node with --name NAME, whose HTTP API is at ADDRESS, and prints the command
that starts it. The node joins without a vote, and gets one when the leader has measured
that it has the log. With --non-voter it stays a copy without a vote, for example far away.
With certificates, make a join token in addition (osqueue cert join-token).

For a member that is stopped, the command says that it comes back at another address.`,
		Example: `  osqueue cluster add n4 10.0.0.4:8080
  osqueue cluster add reader1 10.9.0.1:8080 --non-voter`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			in.Name, in.Address = args[0], args[1]
			done, err := c.AddMember(ctx, in)
			if err != nil {
				return err
			}
			list, err := c.Members(ctx)
			if err != nil {
				return err
			}
			return g.Print(done, "%s", done.Done+"\n"+startText(in, done, list))
		}),
	}
	cmd.Flags().BoolVar(&in.NonVoter, "non-voter", false, "the node stays without a vote")
	return cmd
}

// startText is the command that starts a node that was admitted.
func startText(in v1.NewMember, done v1.MemberChanged, list []v1.Member) string {
	host, _, _ := net.SplitHostPort(in.Address)
	raft := "7080"
	for _, m := range list {
		if _, port, err := net.SplitHostPort(m.RaftAddress); err == nil && m.Leader {
			raft = port
		}
	}
	return fmt.Sprintf(`start it; DIR is its data directory, and the bucket and the certificates are set as on the other nodes:

  osqueue serve --name %s --data DIR --bucket URL \
    --http-addr %s --raft-addr %s \
    --peers %s
`, in.Name, in.Address, net.JoinHostPort(host, raft), done.Peers)
}

func newClusterRemoveCommand(g *view.Globals) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a node from the cluster",
		Long: `Removes a node from the cluster: one that is gone for good, or that was stopped. With
--force it may still run; it then ends by itself. The command is refused if no majority of
the remaining voters answers the leader, and for the leader: transfer the leadership first.
The data directory of the node stays; delete it.`,
		Example: `  osqueue cluster remove n5`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			done, err := c.RemoveMember(ctx, args[0], force)
			return showChange(ctx, g, c, done, err)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove the node while it runs")
	return cmd
}

// showChange prints what holds after a change, and a remark about an even number of voters.
func showChange(ctx context.Context, g *view.Globals, c *client.Client, done v1.MemberChanged, err error) error {
	if err != nil {
		return err
	}
	text := []string{done.Done}
	if list, err := c.Members(ctx); err == nil { // else there is no remark
		voters := 0
		for _, m := range list {
			if m.State == "voter" {
				voters++
			}
		}
		if note := evenVoters(voters); note != "" {
			text = append(text, note)
		}
	}
	return g.Print(done, "%s\n", strings.Join(text, "\n"))
}

// memberCommand returns a command that changes one member.
func memberCommand(g *view.Globals, action, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:     action + " NAME",
		Short:   short,
		Long:    long,
		Example: "  osqueue cluster " + action + " n4",
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			done, err := c.ChangeMember(ctx, args[0], action)
			return showChange(ctx, g, c, done, err)
		}),
	}
}

func newClusterTransferCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "transfer [NAME]",
		Short: "Give the leadership to another node",
		Long: `Gives the leadership to the node NAME, or to the voter whose log is the newest. Requests
continue; those under way may take some hundred milliseconds longer.`,
		Example: `  osqueue cluster transfer
  osqueue cluster transfer n2`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			done, err := c.ChangeMember(ctx, name, v1.ActionLead)
			if err != nil {
				return err
			}
			return g.Print(done, "%s\n", done.Done)
		}),
	}
}
