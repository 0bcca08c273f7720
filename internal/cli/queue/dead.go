package queue

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
	"osqueue/internal/cli/view"
)

func newDeadCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("dead", "List, retry and delete dead jobs",
		`Dead jobs have used up their attempts, or failed for good. They are kept until
somebody retries or removes them.`)
	cmd.AddCommand(
		g.At(g.Watch(newDeadListCommand(g))),
		g.At(g.Watch(newJobShowCommand(g))),
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
--json each line is one job.

` + view.ExitHelp,
		Example: `  osqueue dead ls --type mail`,
		Args:    view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l.filter.Status = []string{v1.StatusDead}
			return l.run(cmd.Context())
		},
	}
	l.bind(cmd, false)
	return cmd
}

var deadColumns = view.Columns("ID", "TYPE", "+ATTEMPTS", "DIED", "+WORKER", "ERROR")

func deadRow(j v1.Job, now time.Time) []string {
	died := units.AgoText(j.FinishedAt, now)
	if died != "-" {
		died += " ago"
	}
	return []string{j.ID, view.OrDash(j.Type), view.Attempts(j), died, view.WorkerName(j), view.OrDash(view.Clip(view.PlainLine(view.FirstLine(view.PlainOrSealed(j.LastError)))))}
}

func newDeadChangeCommand(g *view.Globals, ch *change, name, short string) *cobra.Command {
	r := &changeRun{g: g, change: ch, only: v1.StatusDead}
	cmd := &cobra.Command{
		Use:   name + " [ID…]",
		Short: short,
		Long:  short + ".\n\n" + filterHelp + "\n\n" + view.ExitHelp,
		Example: strings.ReplaceAll(`  osqueue dead NAME 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue dead NAME --type mail
  osqueue dead NAME --all --yes`, "NAME", name),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.command = cmd.CommandPath()
			return r.run(cmd.Context(), args)
		},
	}
	r.bind(cmd)
	return cmd
}
