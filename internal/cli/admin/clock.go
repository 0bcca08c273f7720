package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cluster"
	"osqueue/internal/cli/units"
	"osqueue/internal/cli/view"
	"osqueue/internal/sleep"
)

func newClusterCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("cluster", "Look after the cluster itself",
		"Commands about the nodes and what they share, not about jobs.")
	cmd.AddCommand(newClusterClockCommand(g))
	return cmd
}

func newClusterClockCommand(g *view.Globals) *cobra.Command {
	var back, yes bool
	var to, key string
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show the queue's time and the wall clocks of the nodes, or set the time back",
		Long: `Shows the queue's time, on which schedules, leases and retention depend, and the wall
clock of each node. OFFSET is the lead of a node's clock over the leader's, as the
leader has measured it in the last 30 s; differences above 1s mean that NTP does not
work on a node, and are logged as well. The exit status is 1 if there is no leader.

The queue's time follows the time that a majority of the clocks agree on, by a tenth
at most. If wrong clocks have moved it far ahead, set the clocks right (NTP), then give
--set-back: the leader ends its term, sets the time of the whole queue back to the time
that a majority of the clocks agree on, and becomes leader again. For about a second
writes get 503. No job is lost. Times after the new time become the new time; leases
start again; jobs that were delayed after it, and retries, move back with the clock,
also those with a runAt; earlier times do not change. Jobs that ran too early, or were
removed for their age, are not restored. The bucket must be reachable, and gets a new
checkpoint.

--set TIME sets the queue's time back to TIME instead, if the clocks do not agree or
cannot be set right soon. A majority of the clocks must have reached TIME. From then on
the time follows the clocks again: by a tenth at most, and when the leader changes at
once, if a majority of them agree.

The change is one log entry, on all nodes or on none. If its answer is lost, the command
repeats the request; repeats with the same --idempotency-key change the time once. It
needs feature level 9, which a cluster has when all its nodes are upgraded.

` + view.ExitHelp,
		Example: `  osqueue cluster clock
  osqueue cluster clock --set-back --yes
  osqueue cluster clock --set 2026-03-01T12:00:00Z --yes`,
		Args: view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := clockRequest(back, to, key, yes)
			if err != nil {
				return err
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if req != nil {
					return setClock(cmd.Context(), g, c, *req)
				}
				return showClocks(g, c.StatusAll(ctx))
			})
		},
	}
	cmd.Flags().BoolVar(&back, "set-back", false, "set the queue's time back to the time that a majority of the clocks agree on; needs --yes")
	cmd.Flags().StringVar(&to, "set", "", "set the queue's time back to this time (RFC 3339); needs --yes")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "set the time once, however often the command is run with that key")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "confirm the change")
	return cmd
}

// clockRequest returns the request of the flags, nil to show the clocks.
func clockRequest(back bool, to, key string, yes bool) (*cluster.ClockRequest, error) {
	switch {
	case back && to != "":
		return nil, view.Usagef("--set-back and --set exclude each other")
	case !back && to == "":
		return nil, nil
	case !yes:
		return nil, view.Usagef("osqueue cluster clock --set-back and --set change the time of every job; look at osqueue cluster clock, then give --yes")
	}
	req := &cluster.ClockRequest{Key: cmp.Or(key, uuid.NewString())}
	if to == "" {
		return req, nil
	}
	at, err := time.Parse(time.RFC3339, to)
	if err != nil || at.UnixMilli() <= 0 {
		return nil, view.Usagef("--set %s: must be a time after 1970 as in 2026-03-01T12:00:00Z (RFC 3339)", to)
	}
	req.To = at.UnixMilli()
	return req, nil
}

// setClockPatience bounds the repetitions of a request that gets no answer.
const setClockPatience = time.Minute

// setClock sets the queue's time back. It waits without the usual bound, because the
// leader needs longer than --timeout for a large queue, and repeats the request with the
// same key if it is not answered, for example because another node leads now.
func setClock(ctx context.Context, g *view.Globals, c *client.Client, req cluster.ClockRequest) error {
	for start := time.Now(); ; {
		set, again, err := askToSetClock(ctx, g, c, req)
		switch {
		case err == nil:
			return showClockSet(g, set)
		case !again:
			return fmt.Errorf("set the time back: %w", err)
		case time.Since(start) > setClockPatience || ctx.Err() != nil:
			return fmt.Errorf("set the time back: %w; repeat the command with --idempotency-key %s, which changes the time once", err, units.ShellWord(req.Key))
		}
		sleep.For(ctx, time.Second)
	}
}

// askToSetClock asks the leader once. again reports whether to ask again.
func askToSetClock(ctx context.Context, g *view.Globals, c *client.Client, req cluster.ClockRequest) (set cluster.ClockSet, again bool, err error) {
	nodes := c.StatusAll(ctx)
	i := leaderIndex(nodes)
	if i < 0 {
		return set, true, noLeaderAsked(nodes)
	}
	hc, err := g.HTTPClient()
	if err != nil {
		return set, false, err
	}
	defer hc.CloseIdleConnections()
	return cluster.AskToSetClock(ctx, hc, nodes[i].Server, req)
}

func showClockSet(g *view.Globals, set cluster.ClockSet) error {
	by := time.Duration(set.By) * time.Millisecond
	switch {
	case g.JSON:
		return g.WriteJSON(set)
	case set.Repeated:
		return g.Printf("the queue's time was set back by %v before, by a request with this key\n", by)
	default:
		return g.Printf("the queue's time was set back from %s to %s\n", units.ClockTime(set.Before), units.ClockTime(set.Now))
	}
}

// noLeaderAsked returns the reason why no answer came from a leader.
func noLeaderAsked(nodes []client.NodeStatus) error {
	if err := leaderless(nodes); err != nil {
		return err
	}
	return errors.New("the leader is not one of the servers: name all nodes with --servers")
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

func showClocks(g *view.Globals, nodes []client.NodeStatus) error {
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
	if g.JSON {
		return g.WriteJSON(out)
	}
	rows := [][]string{{"NODE", "WALL CLOCK", "OFFSET"}}
	for _, c := range out.Nodes {
		rows = append(rows, []string{c.Node, units.ClockTime(c.Wall), offsetText(c.OffsetMs)})
	}
	relation := "the leader's wall clock is the same"
	if ahead := time.Duration(out.AheadMs) * time.Millisecond; ahead.Abs() >= 100*time.Millisecond {
		relation = fmt.Sprintf("%s against the wall clock of the leader %s", offsetText(&out.AheadMs), out.Leader)
	}
	return errors.Join(g.Printf("queue's time  %s (%s)\n\n", units.ClockTime(out.Now), relation), g.Table(rows))
}
