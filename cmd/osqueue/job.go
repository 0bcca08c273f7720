package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

func newJobCommand(g *globals) *cobra.Command {
	cmd := newGroupCommand("job", "Look at jobs, wait for them, cancel, retry or delete them",
		"Looks at jobs, waits for them, and changes what becomes of them.")
	cmd.AddCommand(
		newJobShowCommand(g), newJobListCommand(g), newJobWaitCommand(g),
		newJobCancelCommand(g), newJobRetryCommand(g), newJobDeleteCommand(g),
	)
	return cmd
}

func newJobShowCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Aliases: []string{"get"},
		Short:   "Show a job",
		Long: `Shows a job: where it stands, its payload, its result, the log of the attempt
that completed it, and the attempts that failed.

` + exitHelp,
		Example: `  osqueue job show 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				job, err := c.Job(ctx, args[0])
				if err != nil {
					return err
				}
				return g.showJob(job, job.Status == v1.StatusUnclaimed && (&workerless{c: c}).waits(ctx, v1.Queue{
					Type: job.Type, TypeStats: v1.TypeStats{Unclaimed: 1},
				}))
			})
		},
	}
}

func (g *globals) showJob(j v1.Job, noWorker bool) error {
	if g.json {
		return g.writeJSON(j)
	}
	status := statusText(j)
	if noWorker {
		status += " (no worker takes this type)"
	}
	rows := [][]string{
		{"id", j.ID},
		{"type", orDash(j.Type)},
		{"status", status},
		{"attempts", attempts(j)},
		{"priority", strconv.Itoa(int(j.Priority))},
		{"created", clockTime(j.CreatedAt)},
	}
	rows = append(rows, set(
		[]string{"not before", clockTime(j.RunAt)},
		[]string{"claimed", clockTime(j.ClaimedAt)},
		[]string{"heartbeat", clockTime(j.Heartbeat)},
		[]string{"finished", clockTime(j.FinishedAt)},
		[]string{"worker", workerName(j)},
		[]string{"progress", progressText(j.Progress)},
		[]string{"group", j.Group},
		[]string{"tags", strings.Join(j.Tags, " ")},
		[]string{"unique", uniqueText(j)},
		[]string{"after", afterText(j)},
		[]string{"waits for", strings.Join(j.WaitsFor, " ")},
		[]string{"batch", j.BatchID},
		[]string{"cron", j.Cron},
		[]string{"cron time", clockTime(j.CronAt)},
		[]string{"job timeout", msOrNone(j.TimeoutMs)},
		[]string{"backoff", backoffText(j.Backoff)},
		[]string{"payload", string(j.Payload)},
		[]string{"result", string(j.Result)},
		[]string{"log", strings.TrimSpace(j.Log)},
		[]string{"last error", strings.TrimSpace(j.LastError)},
	)...)
	for _, a := range j.History {
		rows = append(rows, []string{fmt.Sprintf("attempt %d", a.Number), attemptText(a)})
	}
	return g.table(rows)
}

// set are the rows that have a value.
func set(rows ...[]string) [][]string {
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" || row[1] == "-" })
}

func msOrNone(ms int64) string {
	if ms == 0 {
		return ""
	}
	return msText(ms)
}

// statusText is a job's status, with what is about to change it.
func statusText(j v1.Job) string {
	if j.CancelAt != 0 && j.Status == v1.StatusInProgress {
		return v1.StatusWord(j.Status) + " (cancellation requested at " + clockTime(j.CancelAt) + ")"
	}
	return v1.StatusWord(j.Status)
}

func progressText(p *v1.Progress) string {
	if p == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d%% %s", p.Percent, p.Message))
}

func afterText(j v1.Job) string {
	text := strings.Join(j.After, " ")
	if text != "" && j.AfterFailure != "" {
		text += " (if it fails: " + j.AfterFailure + ")"
	}
	return text
}

func attemptText(a v1.Attempt) string {
	text := fmt.Sprintf("%s after %s", a.End, short(time.Duration(a.EndedAt-a.StartedAt)*time.Millisecond))
	if a.WorkerID != nil {
		text += " on " + orDash(plainLine(*a.WorkerID))
	}
	if a.Error != "" {
		text += ": " + strings.TrimSpace(a.Error)
	}
	return text
}

func newJobListCommand(g *globals) *cobra.Command {
	l := &jobLister{g: g, columns: jobColumns, row: jobRow}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List jobs, first in first out",
		Long: `Lists jobs, first in first out; without --status those that have not ended. With
--json each line is one job.

` + exitHelp,
		Example: `  osqueue job ls --status dead,cancelled --type wc
  osqueue job ls --tag newsletter --created-after 2h
  osqueue job ls --status all --all --json | jq -r 'select(.attempts > 1).id'`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.bind(cmd, true)
	return cmd
}

// jobLister is a command that lists jobs.
type jobLister struct {
	g       *globals
	filter  filterFlags
	cron    string
	columns []string
	row     func(j v1.Job, now time.Time) []string
}

func (l *jobLister) bind(cmd *cobra.Command, withStatus bool) {
	l.filter.bind(cmd, withStatus)
	flags := cmd.Flags()
	flags.StringVar(&l.cron, "cron", "", "only jobs that this schedule has enqueued")
	flags.IntVar(&l.filter.limit, "limit", 100, "how many to list")
	flags.BoolVar(&l.filter.all, "all", false, "list without limit")
}

func (l *jobLister) run(ctx context.Context) error {
	f := &l.filter
	if f.limit < 1 {
		return usagef("--limit %d: must be at least 1; for no limit give --all", f.limit)
	}
	c, err := l.g.client()
	if err != nil {
		return err
	}
	defer c.Close()
	limit := f.limit + 1 // one more tells whether there are more
	if f.all {
		limit = 0
	}
	list := f.list()
	list.Cron, list.Limit, list.PageSize = l.cron, limit, min(500, max(limit, 1))
	if f.all {
		list.PageSize = 500
	}
	return l.write(ctx, c, list)
}

// pageRows is how many rows are aligned with one another: a table without
// limit must not wait in memory for its end.
const pageRows = 500

func (l *jobLister) write(ctx context.Context, c *client.Client, list client.ListOptions) error {
	t := &longTable{g: l.g, rows: [][]string{l.columns}}
	n := 0
	for job, err := range c.Jobs(ctx, list) {
		if err != nil {
			return err
		}
		if n++; !l.filter.all && n > l.filter.limit {
			_, _ = fmt.Fprintf(l.g.stderr, "There are more jobs than %d; see --limit and --all.\n", l.filter.limit)
			break
		}
		if err := t.add(job, func() []string { return l.row(job, time.Now()) }); err != nil {
			return err
		}
	}
	return t.end()
}

// longTable is a table of any length, or with --json a line for each item.
type longTable struct {
	g    *globals
	rows [][]string // not yet written
}

func (t *longTable) add(item any, row func() []string) error {
	if t.g.json {
		return t.g.writeJSON(item)
	}
	t.rows = append(t.rows, plainCells(row()))
	if len(t.rows) < pageRows {
		return nil
	}
	err := t.g.table(t.rows)
	t.rows = t.rows[:0]
	return err
}

func (t *longTable) end() error {
	if t.g.json {
		return nil
	}
	return t.g.table(t.rows)
}

var jobColumns = []string{"ID", "TYPE", "STATUS", "ATTEMPTS", "AGE", "WORKER"}

func jobRow(j v1.Job, now time.Time) []string {
	status := v1.StatusWord(j.Status)
	if p := j.Progress; p != nil && j.Status == v1.StatusInProgress {
		status += fmt.Sprintf(" %d%%", p.Percent)
	}
	return []string{j.ID, orDash(j.Type), status, attempts(j), agoText(j.CreatedAt, now), workerName(j)}
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
	return orDash(plainLine(*j.WorkerID))
}
