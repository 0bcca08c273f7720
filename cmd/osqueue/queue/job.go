package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newJobCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("job", "List, show, wait for, change, cancel, retry and delete jobs",
		"Lists, shows and changes jobs, and waits for them.")
	cmd.AddCommand(
		g.Read(newJobShowCommand(g)), newJobGetCommand(g), g.Read(newJobListCommand(g)), newJobWaitCommand(g), g.At(newJobLogsCommand(g)), g.Read(newJobGraphCommand(g)),
		newJobSetCommand(g), newJobSignalCommand(g), newJobLinkCommand(g), newJobCancelCommand(g), newJobRetryCommand(g), newJobDeleteCommand(g),
	)
	return cmd
}

func newJobShowCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a job",
		Long: `Shows a job: its status, its payload, its result, its artefacts, the log of the attempt
that completed it, and the attempts that failed.`,
		Example: `  osqueue job show 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			job, err := readJob(ctx, g, c, args[0])
			if err != nil {
				return err
			}
			return g.Details(job, view.JobRows(job, job.Status == v1.StatusUnclaimed && (&workerless{c: c}).waits(ctx, v1.Queue{
				Type: job.Type, TypeStats: v1.TypeStats{Unclaimed: 1},
			})))
		}),
	}
}

func newJobListCommand(g *view.Globals) *cobra.Command {
	l := &jobLister{g: g, columns: view.JobColumns, row: view.JobRow}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List, search or count jobs",
		Long: `Lists jobs, the oldest first; without --status those that have not ended, or with
--finished-after or --finished-before those that have. With --json each line is one
job. --search searches the id, the type, the tags, the last error and the payload,
without regard to case.`,
		Example: `  osqueue job ls --status dead,cancelled --type wc
  osqueue job ls --tag newsletter --created-after 2h
  osqueue job ls --status dead --newest --finished-after 1h --search 'gateway timeout'
  osqueue job ls --status all --group customer-7 --count
  osqueue job ls --status all --all --json | jq -r 'select(.attempts > 1).id'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.bind(cmd, true)
	return cmd
}

// jobLister is a command that lists jobs.
type jobLister struct {
	g        *view.Globals
	filter   view.Filter
	cron     string
	newest   bool
	count    bool
	errors   bool
	search   string
	finished struct{ after, before view.Time }
	columns  []view.Column
	row      func(j v1.Job, now time.Time) []string
}

func (l *jobLister) bind(cmd *cobra.Command, withStatus bool) {
	l.filter.Bind(cmd, withStatus)
	flags := cmd.Flags()
	flags.StringVar(&l.cron, "cron", "", "only jobs that this schedule has enqueued")
	l.filter.Limit = 100
	flags.Var(view.From(&l.filter.Limit, 1), "limit", "maximum number of jobs to list")
	flags.BoolVar(&l.filter.All, "all", false, "list without limit")
	flags.BoolVar(&l.newest, "newest", false, "the newest jobs first")
	flags.BoolVar(&l.count, "count", false, "print only the number of jobs")
	flags.StringVar(&l.search, "search", "", "only jobs with this text in id, type, tags, last error or payload")
	view.TimeVar(flags, &l.finished.after, true, "finished-after", "only jobs that ended at that time or later, as --created-after")
	view.TimeVar(flags, &l.finished.before, true, "finished-before", "only jobs that ended before that time")
}

func (l *jobLister) run(ctx context.Context) error {
	f := &l.filter
	limit := f.Limit + 1 // one more shows whether there are more
	if f.All || l.errors {
		limit = 0
	}
	list := f.List()
	list.Cron, list.Limit, list.PageSize = l.cron, limit, min(500, max(limit, 1))
	list.Newest, list.Search, list.FinishedFrom, list.FinishedBefore = l.newest, l.search, l.finished.after.At, l.finished.before.At
	if limit == 0 {
		list.PageSize = 500
	}
	return l.g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		switch {
		case l.errors:
			return l.writeErrors(ctx, c, list)
		case l.count:
			return l.writeCount(ctx, c, list)
		}
		return l.write(ctx, c, list)
	})
}

func (l *jobLister) writeCount(ctx context.Context, c *client.Client, list client.ListOptions) error {
	n, err := c.CountJobs(ctx, list)
	if err != nil {
		return err
	}
	return l.g.Print(map[string]uint64{"count": n}, "%d\n", n)
}

func (l *jobLister) write(ctx context.Context, c *client.Client, list client.ListOptions) error {
	t := &view.LongTable{G: l.g, Columns: l.columns}
	n := 0
	for job, err := range c.Jobs(ctx, list) {
		if err != nil {
			return err
		}
		if n++; !l.filter.All && n > l.filter.Limit {
			_, _ = fmt.Fprintf(l.g.Err, "There are more jobs than %d; see --limit and --all.\n", l.filter.Limit)
			break
		}
		if err := t.Add(job, func() []string { return l.row(job, l.g.Now()) }); err != nil {
			return err
		}
	}
	return t.End()
}

func newDeadCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("dead", "List, retry and delete dead jobs",
		`Dead jobs have used up their attempts, or failed permanently. They are kept until
you retry or remove them.`)
	cmd.AddCommand(
		g.Read(newDeadListCommand(g)),
		g.Read(newJobShowCommand(g)),
		newDeadChangeCommand(g, retryJobs, "retry", "Retry dead jobs, with all their attempts"),
		newDeadChangeCommand(g, deleteJobs, "rm", "Delete dead jobs"),
	)
	return cmd
}

func newDeadListCommand(g *view.Globals) *cobra.Command {
	l := &jobLister{g: g, columns: deadColumns, row: deadRow}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List dead jobs",
		Long: `Lists dead jobs, first in first out, with the error of the last attempt. With
--json each line is one job. --errors counts all of them by type and error instead;
it shows ids and numbers as #, so that "order 17" and "order 18" are one error.`,
		Example: `  osqueue dead ls --type mail
  osqueue dead ls --errors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l.filter.Status = []string{v1.StatusDead}
			return l.run(cmd.Context())
		},
	}
	l.bind(cmd, false)
	cmd.Flags().BoolVar(&l.errors, "errors", false, "count the jobs by type and error")
	return cmd
}

// deadError is an error that dead jobs of a type have in common.
type deadError struct {
	Type     string `json:"type"`
	Error    string `json:"error"`
	Count    int    `json:"count"`
	NewestAt int64  `json:"newestAt"` // when the last of them died
	NewestID string `json:"newestId"`
}

// writeErrors prints the errors of all jobs of a list, the most frequent first.
func (l *jobLister) writeErrors(ctx context.Context, c *client.Client, list client.ListOptions) error {
	groups := map[[2]string]*deadError{}
	for j, err := range c.Jobs(ctx, list) {
		if err != nil {
			return err
		}
		key := [2]string{j.Type, v1.ErrorGroup(view.PlainOrSealed(j.LastError))}
		g := groups[key]
		if g == nil {
			g = &deadError{Type: key[0], Error: key[1]}
			groups[key] = g
		}
		if g.Count++; j.FinishedAt >= g.NewestAt {
			g.NewestAt, g.NewestID = j.FinishedAt, j.ID
		}
	}
	t := &view.LongTable{G: l.g, Columns: view.Columns("JOBS", "TYPE", "NEWEST", "+ID", "ERROR")}
	for _, g := range slices.SortedFunc(maps.Values(groups), func(a, b *deadError) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.NewestAt, a.NewestAt), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Error, b.Error))
	}) {
		err := t.Add(g, func() []string {
			return []string{strconv.Itoa(g.Count), view.OrDash(g.Type), diedText(g.NewestAt, l.g.Now()), g.NewestID, view.OrDash(view.Clip(view.PlainLine(g.Error)))}
		})
		if err != nil {
			return err
		}
	}
	return t.End()
}

var deadColumns = view.Columns("ID", "TYPE", "+ATTEMPTS", "DIED", "+WORKER", "ERROR")

func deadRow(j v1.Job, now time.Time) []string {
	return []string{j.ID, view.OrDash(j.Type), view.Attempts(j), diedText(j.FinishedAt, now), view.WorkerName(j), view.OrDash(view.Clip(view.PlainLine(view.FirstLine(view.PlainOrSealed(j.LastError)))))}
}

func diedText(at int64, now time.Time) string {
	died := view.AgoText(at, now)
	if died != "-" {
		died += " ago"
	}
	return died
}

func newDeadChangeCommand(g *view.Globals, ch *change, name, short string) *cobra.Command {
	return newChangeCommand(&changeRun{g: g, change: ch, only: v1.StatusDead}, &cobra.Command{
		Use:   name + " [ID…]",
		Short: short,
		Long:  short + ".\n\n" + filterHelp,
		Example: strings.ReplaceAll(`  osqueue dead NAME 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue dead NAME --type mail
  osqueue dead NAME --all --yes`, "NAME", name),
	})
}
