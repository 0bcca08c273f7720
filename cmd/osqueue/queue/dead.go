package queue

import (
	"cmp"
	"context"
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

func newDeadCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("dead", "List, retry and delete dead jobs",
		`Dead jobs have used up their attempts, or failed for good. They are kept until
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
