package queue

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newStatsCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Show statistics of the queue, by type",
		Long:  "Shows statistics of the whole queue, and of each type.\n\n" + view.ExitHelp,
		Args:  view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := c.StatsByType(ctx)
				if err != nil {
					return err
				}
				return showStats(g, s)
			})
		},
	}
}

func showStats(g *view.Globals, s v1.Stats) error {
	if g.JSON {
		return g.WriteJSON(s)
	}
	all := v1.TypeStats{
		Scheduled: s.Scheduled, Unclaimed: s.Unclaimed, InProgress: s.InProgress, Completed: s.Completed,
		Dead: s.Dead, Cancelled: s.Cancelled, Blocked: s.Blocked, Bytes: s.Bytes,
	}
	columns := view.Columns("TYPE", "AVAILABLE", "RUNNING", "SCHEDULED", "BLOCKED", "COMPLETED", "DEAD", "+CANCELLED", "+BYTES")
	var rows [][]string
	for _, kind := range slices.Sorted(maps.Keys(s.Types)) {
		rows = append(rows, statsRow(view.OrDash(view.PlainLine(kind)), s.Types[kind]))
	}
	rows = append(rows, statsRow("(all)", all))
	if err := g.TableOf(columns, rows); err != nil {
		return err
	}
	return g.Printf("in all: %d completed, %d dead, %d cancelled; %s\n",
		s.CompletedTotal, s.DeadTotal, s.CancelledTotal, view.Plural(uint64(s.Workers), "worker"))
}

func statsRow(name string, t v1.TypeStats) []string {
	row := []string{name}
	for _, n := range []int{t.Unclaimed, t.InProgress, t.Scheduled, t.Blocked, t.Completed, t.Dead, t.Cancelled} {
		row = append(row, strconv.Itoa(n))
	}
	return append(row, view.SizeText(t.Bytes))
}
