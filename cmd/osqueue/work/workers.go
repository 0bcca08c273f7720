package work

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func workerRows(w v1.Worker) [][]string {
	types := "any"
	if len(w.Types) > 0 {
		types = strings.Join(w.Types, " ")
	}
	rows := [][]string{
		{"name", w.Name},
		{"types", types},
		{"registered", view.ClockTime(w.RegisteredAt)},
		{"last seen", view.ClockTime(w.LastSeen)},
		{"state", view.WorkerState(w)},
		{"running", view.RunningText(w)},
	}
	if w.QuietSince != 0 {
		rows = append(rows, []string{"quiet since", view.ClockTime(w.QuietSince)}, []string{"quieted by", view.OrDash(w.QuietedBy)})
	}
	if w.GoneAt != 0 {
		rows = append(rows, []string{"gone since", view.ClockTime(w.GoneAt)})
	}
	rows = append(rows, view.NonEmptyRows([]string{"version", w.Version}, []string{"address", w.Address})...)
	for _, id := range w.JobIDs {
		rows = append(rows, []string{"job", id})
	}
	return rows
}

func newQuietCommand(g *view.Globals) *cobra.Command {
	cmd := newWorkerSwitch(g, "quiet", (*client.Client).QuietWorker)
	cmd.Short = "Quiet workers: they get no new jobs, and finish those that they run"
	cmd.Long = `Makes workers quiet: they get no new jobs, and finish those that they run. When
osqueue worker ls shows 0 running jobs, a worker can be stopped without losing work.

A worker stays quiet until osqueue worker unquiet, also over a change of leader and if
it loses its connection. If it is declared dead, the cluster remembers its name for a
day: a worker that comes back under the same name is quiet still. The names that
osqueue worker and the SDK make by themselves are new in every process.`
	cmd.Example = `  osqueue worker quiet build-7
  osqueue worker show build-7 --watch`
	return cmd
}

func newUnquietCommand(g *view.Globals) *cobra.Command {
	cmd := newWorkerSwitch(g, "unquiet", (*client.Client).UnquietWorker)
	cmd.Short = "Let quiet workers get jobs again"
	cmd.Long = "Lets quiet workers get jobs again."
	return cmd
}

func newWorkerSwitch(g *view.Globals, verb string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME…",
		RunE: g.Each(func(ctx context.Context, c *client.Client, name string) error {
			if err := do(c, ctx, name); err != nil {
				return err
			}
			w, err := c.Worker(ctx, name)
			if client.IsNotFound(err) { // it was gone
				w, err = v1.Worker{Name: name}, nil
			}
			if err != nil {
				return err
			}
			return g.Print(view.Written(g, w), "%s  %s; %s running\n", view.PlainLine(w.Name), view.WorkerState(w), view.RunningText(w))
		}),
	}
}
