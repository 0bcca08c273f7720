package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

func newJobCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Look at jobs",
		Long:  "Looks at jobs.\n\n" + exitHelp,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobGetCommand(g), newJobListCommand(g))
	return cmd
}

func newJobGetCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show a job",
		Long:  "Shows a job: where it stands, its payload, its result.\n\n" + exitHelp,
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				job, err := c.Job(ctx, args[0])
				if err != nil {
					return err
				}
				return g.showJob(job)
			})
		},
	}
}

func (g *globals) showJob(j v1.Job) error {
	if g.json {
		return g.writeJSON(j)
	}
	rows := [][]string{
		{"id", j.ID},
		{"type", orDash(j.Type)},
		{"status", j.Status},
		{"attempts", attempts(j)},
		{"priority", strconv.Itoa(int(j.Priority))},
		{"created", clockTime(j.CreatedAt)},
	}
	optional := [][]string{
		{"not before", clockTime(j.RunAt)},
		{"claimed", clockTime(j.ClaimedAt)},
		{"heartbeat", clockTime(j.Heartbeat)},
		{"finished", clockTime(j.FinishedAt)},
		{"worker", workerName(j)},
		{"payload", string(j.Payload)},
		{"result", string(j.Result)},
		{"last error", strings.TrimSpace(j.LastError)},
	}
	for _, row := range optional {
		if row[1] != "" && row[1] != "-" {
			rows = append(rows, row)
		}
	}
	return g.table(rows)
}

// listFlags are the flags of "osqueue job list".
type listFlags struct {
	status []string
	kind   string
	limit  int
	all    bool
}

func newJobListCommand(g *globals) *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, first in first out",
		Long: `Lists jobs, first in first out; without --status those that have not ended. With
--json each line is one job.

` + exitHelp,
		Example: `  osqueue job list --status dead --type wc
  osqueue job list --status all --all --json | jq -r 'select(.attempts > 1).id'`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return g.listJobs(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.status, "status", nil,
		"scheduled, unclaimed, in_progress, completed, dead, cancelled, several with commas, or all")
	flags.StringVar(&f.kind, "type", "", "only jobs of this type")
	flags.IntVar(&f.limit, "limit", 100, "how many to list")
	flags.BoolVar(&f.all, "all", false, "list without limit")
	return cmd
}

func (g *globals) listJobs(ctx context.Context, f *listFlags) error {
	if f.limit < 1 {
		return usagef("--limit %d: must be at least 1; for no limit give --all", f.limit)
	}
	c, err := g.client()
	if err != nil {
		return err
	}
	defer c.Close()
	limit := f.limit + 1 // one more tells whether there are more
	if f.all {
		limit = 0
	}
	list := client.ListOptions{Statuses: f.status, Type: f.kind, Limit: limit, PageSize: min(500, max(limit, 1))}
	if f.all {
		list.PageSize = 500
	}
	return g.writeJobs(ctx, c, list, f)
}

// pageRows is how many rows are aligned with one another: a table without
// limit must not wait in memory for its end.
const pageRows = 500

func (g *globals) writeJobs(ctx context.Context, c *client.Client, list client.ListOptions, f *listFlags) error {
	rows := [][]string{{"ID", "TYPE", "STATUS", "ATTEMPTS", "AGE", "WORKER"}}
	n := 0
	for job, err := range c.Jobs(ctx, list) {
		if err != nil {
			return err
		}
		if n++; !f.all && n > f.limit {
			_, _ = fmt.Fprintf(g.stderr, "There are more than these %d jobs; see --limit and --all.\n", f.limit)
			break
		}
		if g.json {
			if err := g.writeJSON(job); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, jobRow(job, time.Now()))
		if len(rows) == pageRows {
			if err := g.table(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	if g.json {
		return nil
	}
	return g.table(rows)
}

func jobRow(j v1.Job, now time.Time) []string {
	age := now.Sub(time.UnixMilli(j.CreatedAt))
	return []string{j.ID, orDash(j.Type), j.Status, attempts(j), short(max(age, 0)), workerName(j)}
}

func attempts(j v1.Job) string {
	if j.MaxAttempts == 0 {
		return strconv.Itoa(int(j.Attempts))
	}
	return fmt.Sprintf("%d of %d", j.Attempts, j.MaxAttempts)
}

func workerName(j v1.Job) string {
	if j.WorkerID == nil {
		return "-"
	}
	return orDash(*j.WorkerID)
}
