package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cluster"
	"osqueue/internal/cli/units"
)

func newClusterCommand(g *globals) *cobra.Command {
	cmd := newGroupCommand("cluster", "Look after the cluster itself",
		"Commands about the nodes and what they share, not about jobs.")
	cmd.AddCommand(newClusterClockCommand(g))
	return cmd
}

func newClusterClockCommand(g *globals) *cobra.Command {
	back, yes := false, false
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show the queue's time and the wall clocks of the nodes, or set the time back",
		Long: `Shows the queue's time, by which schedules, leases and retention go, and the wall
clock of each node. OFFSET is how far a node's clock is ahead of the leader's, as the
leader has measured it in the last 30 s; differences above 1s mean that NTP does not
work somewhere, and are in the log as well. The exit status is 1 if no node leads.

The queue's time follows the time that a majority of the clocks agree on, by a tenth
at most. If wrong clocks have moved it far ahead, set the clocks right (NTP), then give
--set-back: the leader ends its term, sets the time of the whole queue back to the time
that a majority of the clocks agree on, and leads again. For a second or so writes get
503. No job is lost. What happened in the time that is taken back happened now; leases
last in full; jobs that were delayed meanwhile, and retries, move back with the clock,
those with a runAt among them; times that were set before stay. What was due too early,
or was removed for its age, is not undone. The bucket has to be reached, and has a new
checkpoint afterwards. If the leader fails in between, look at the time again.

` + exitHelp,
		Example: `  osqueue cluster clock
  osqueue cluster clock --set-back --yes`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				nodes := c.StatusAll(ctx)
				if !back {
					return showClocks(g, nodes)
				}
				if !yes {
					return usagef("osqueue cluster clock --set-back changes the time of every job; look at osqueue cluster clock, then give --yes")
				}
				return setClockBack(cmd.Context(), g, nodes)
			})
		},
	}
	cmd.Flags().BoolVar(&back, "set-back", false, "set the queue's time back to the time that a majority of the clocks agree on; needs --yes")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it")
	return cmd
}

// setClockBack sets the queue's clock back. It waits without the usual bound, because
// the leader needs longer than --timeout for a large queue.
func setClockBack(ctx context.Context, g *globals, nodes []client.NodeStatus) error {
	i := leaderIndex(nodes)
	if i < 0 {
		return noLeaderAsked(nodes)
	}
	lead := nodes[i].Status
	if lead.LeaderAddress == nil {
		return errors.New("the leader does not say its address; try again")
	}
	times, err := cluster.AskToSetBack(ctx, http.DefaultClient, *lead.LeaderAddress)
	if err != nil {
		return fmt.Errorf("set the time back: %w", err)
	}
	if g.json {
		return g.writeJSON(times)
	}
	return g.printf("the queue's time was set back from %s to %s\n", units.ClockTime(times.Before), units.ClockTime(times.Now))
}

// noLeaderAsked returns the reason why no answer came from a leader.
func noLeaderAsked(nodes []client.NodeStatus) error {
	if err := leaderless(nodes); err != nil {
		return err
	}
	return errors.New("the leader was not asked: name all nodes with --servers")
}

// nodeClocks is the JSON form of the cluster's clocks.
type nodeClocks struct {
	Leader  string      `json:"leader"`
	Now     int64       `json:"now"`     // ms, the queue's
	AheadMs int64       `json:"aheadMs"` // of the leader's wall clock
	Nodes   []wallClock `json:"nodes"`
}

// wallClock describes the wall clock of one node.
type wallClock struct {
	Node     string `json:"node"`
	Wall     int64  `json:"wall,omitzero"`     // ms; absent if the node does not say
	OffsetMs *int64 `json:"offsetMs,omitzero"` // ahead of the leader's; absent if it is not known
}

func showClocks(g *globals, nodes []client.NodeStatus) error {
	i := leaderIndex(nodes)
	if i < 0 {
		return noLeaderAsked(nodes)
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
		rows = append(rows, []string{c.Node, units.ClockTime(c.Wall), offsetText(c.OffsetMs)})
	}
	relation := "the leader's wall clock is the same"
	if ahead := time.Duration(out.AheadMs) * time.Millisecond; ahead.Abs() >= 100*time.Millisecond {
		relation = fmt.Sprintf("%s against the wall clock of %s, which leads", offsetText(&out.AheadMs), out.Leader)
	}
	return errors.Join(g.printf("queue's time  %s (%s)\n\n", units.ClockTime(out.Now), relation), g.table(rows))
}
