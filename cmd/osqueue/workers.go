package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
)

func newWorkerListCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the registered workers",
		Long:    "Lists the registered workers. With --json each line is one worker.\n\n" + exitHelp,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				workers, err := c.Workers(ctx)
				if err != nil {
					return err
				}
				t := &longTable{g: g, rows: [][]string{workerColumns}}
				for _, w := range workers {
					if err := t.add(w, func() []string { return workerRow(w, time.Now()) }); err != nil {
						return err
					}
				}
				return t.end()
			})
		},
	}
}

func newWorkerShowCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a registered worker, and the jobs that it holds",
		Long:  "Shows a registered worker, and the first of the jobs that it holds.\n\n" + exitHelp,
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				w, err := c.Worker(ctx, args[0])
				if err != nil {
					return err
				}
				return showWorker(g, w)
			})
		},
	}
}

func showWorker(g *globals, w v1.Worker) error {
	if g.json {
		return g.writeJSON(w)
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
	rows = append(rows, set([]string{"version", w.Version}, []string{"address", w.Address})...)
	for _, id := range w.JobIDs {
		rows = append(rows, []string{"job", id})
	}
	return g.table(rows)
}
