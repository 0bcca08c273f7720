package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
)

func newClusterCommand(g *globals) *cobra.Command {
	cmd := newGroupCommand("cluster", "Look after the cluster itself",
		"Commands about the nodes and what they share, not about jobs.")
	cmd.AddCommand(newClusterClockCommand(g))
	return cmd
}

func newClusterClockCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "clock",
		Short: "Show the queue's time and the wall clocks of the nodes",
		Long: `Shows the queue's time, by which schedules, leases and retention go, and the wall
clock of each node. OFFSET is how far a node's clock is ahead of the leader's, as the
leader has measured it in the last 30 s; differences above 1s mean that NTP does not
work somewhere, and are in the log as well. The exit status is 1 if no node leads.

The leader's clock follows the time that a majority of the clocks agree on by a tenth
at most, so the queue's time is wrong for a while after a majority had a wrong clock.

` + exitHelp,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return g.showClocks(c.StatusAll(ctx))
			})
		},
	}
}

// nodeClocks is what the cluster's clock is shown as, in JSON.
type nodeClocks struct {
	Leader  string      `json:"leader"`
	Now     int64       `json:"now"`     // ms, the queue's
	AheadMs int64       `json:"aheadMs"` // of the leader's wall clock
	Nodes   []wallClock `json:"nodes"`
}

// wallClock is a node's.
type wallClock struct {
	Node     string `json:"node"`
	Wall     int64  `json:"wall,omitzero"`     // ms; absent if the node does not say
	OffsetMs *int64 `json:"offsetMs,omitzero"` // ahead of the leader's; absent if it is not known
}

func (g *globals) showClocks(nodes []client.NodeStatus) error {
	i := leaderIndex(nodes)
	if i < 0 {
		if err := leaderless(nodes); err != nil {
			return err
		}
		return errors.New("the leader was not asked: name all nodes with --servers")
	}
	lead := nodes[i].Status
	out := nodeClocks{Leader: lead.NodeID, Now: lead.Now, AheadMs: lead.Now - lead.WallClock}
	for _, p := range lead.Peers {
		c := wallClock{Node: p.Name, OffsetMs: p.ClockOffsetMs}
		for _, n := range nodes {
			if n.Err == nil && n.Status.NodeID == p.Name {
				c.Wall = n.Status.WallClock
			}
		}
		out.Nodes = append(out.Nodes, c)
	}
	if g.json {
		return g.writeJSON(out)
	}
	rows := [][]string{{"NODE", "WALL CLOCK", "OFFSET"}}
	for _, c := range out.Nodes {
		rows = append(rows, []string{c.Node, clockTime(c.Wall), offsetText(c.OffsetMs)})
	}
	relation := "the leader's wall clock is the same"
	if ahead := time.Duration(out.AheadMs) * time.Millisecond; ahead.Abs() >= 100*time.Millisecond {
		relation = fmt.Sprintf("%s against the wall clock of %s, which leads", offsetText(&out.AheadMs), out.Leader)
	}
	return errors.Join(g.printf("queue's time  %s (%s)\n\n", clockTime(out.Now), relation), g.table(rows))
}
