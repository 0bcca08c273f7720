package work

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
	"osqueue/internal/cli/view"
)

func newWorkerListCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the registered workers",
		Long:    "Lists the registered workers. With --json each line is one worker.\n\n" + view.ExitHelp,
		Args:    view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				workers, err := c.Workers(ctx)
				if err != nil {
					return err
				}
				t := &view.LongTable{G: g, Columns: view.WorkerColumns}
				for _, w := range workers {
					if err := t.Add(w, func() []string { return view.WorkerRow(w, time.Now()) }); err != nil {
						return err
					}
				}
				return t.End()
			})
		},
	}
}

func newWorkerShowCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a registered worker, and the jobs that it holds",
		Long:  "Shows a registered worker, and the first of the jobs that it holds.\n\n" + view.ExitHelp,
		Args:  view.UsageArgs(cobra.ExactArgs(1)),
		RunE:  view.Show(g, (*client.Client).Worker, showWorker),
	}
}

func showWorker(g *view.Globals, w v1.Worker) error {
	if g.JSON {
		return g.WriteJSON(w)
	}
	types := "any"
	if len(w.Types) > 0 {
		types = strings.Join(w.Types, " ")
	}
	rows := [][]string{
		{"name", w.Name},
		{"types", types},
		{"registered", units.ClockTime(w.RegisteredAt)},
		{"last seen", units.ClockTime(w.LastSeen)},
		{"running", strconv.Itoa(w.Running)},
	}
	rows = append(rows, view.NonEmptyRows([]string{"version", w.Version}, []string{"address", w.Address})...)
	for _, id := range w.JobIDs {
		rows = append(rows, []string{"job", id})
	}
	return g.Table(rows)
}
