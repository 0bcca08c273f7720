package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/view"
)

func newJobLogsCommand(g *view.Globals) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the log of a job, and follow its attempts and progress",
		Long: `Prints the errors of the attempts that failed, which have the end of their logs,
and the log of the attempt that completed the job. The queue gets the log of an
attempt when the attempt ends.

With --follow the attempts and the progress of the job are printed as they happen,
first those that the nodes still hold, until the job has ended; then its log. It
goes on over attempts, and when a worker or a node dies. The exit status is then
that of osqueue job wait: 0 if the job completed, 1 if it is dead or cancelled. With
--json each line is an event, and the last one is the job.

` + view.ExitHelp,
		Example: `  osqueue job logs 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job logs report-7 --follow`,
		Args: view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := g.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			if follow {
				return followLogs(cmd.Context(), g, c, args[0])
			}
			job, err := readJob(cmd.Context(), g, c, args[0])
			if err != nil {
				return err
			}
			return showLogs(g, job)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print attempts and progress as they happen, until the job has ended")
	return cmd
}

// readJob is Client.Job. A part that cannot be decrypted is a warning.
func readJob(ctx context.Context, g *view.Globals, c *client.Client, id string) (v1.Job, error) {
	job, err := c.Job(ctx, id)
	if errors.As(err, new(*client.SealError)) {
		return job, view.WritePlain(g.Err, err.Error()+"\n")
	}
	return job, err
}

// endKinds are the events after which a job may have ended. A job that was retried since has
// not, and one whose end the nodes do not hold any more may have.
var endKinds = []string{v1.EventCompleted, v1.EventDead, v1.EventCancelled, v1.EventRemoved, v1.EventGap}

func hasEnded(j v1.Job) bool {
	return j.Status == v1.StatusCompleted || j.Status == v1.StatusDead || j.Status == v1.StatusCancelled
}

// followLogs prints the events of a job until it has ended, then its log.
func followLogs(ctx context.Context, g *view.Globals, c *client.Client, id string) error {
	job, err := readJob(ctx, g, c, id)
	if err != nil {
		return err
	}
	if hasEnded(job) {
		return endLogs(g, job)
	}
	for e, err := range c.Events(ctx, client.EventOptions{JobID: id, After: firstEvent}) {
		if err != nil {
			return unlessStopped(ctx, err)
		}
		if err := showEvent(g, e); err != nil {
			return err
		}
		if !slices.Contains(endKinds, e.Kind) {
			continue
		}
		if job, err = readJob(ctx, g, c, id); err != nil {
			return err
		}
		if hasEnded(job) {
			return endLogs(g, job)
		}
	}
	return nil
}

// endLogs prints the log of a job that has ended, and returns an error if it did not complete.
func endLogs(g *view.Globals, job v1.Job) error {
	if err := showLogs(g, job); err != nil {
		return err
	}
	if job.Status != v1.StatusCompleted {
		return &client.JobError{Job: job}
	}
	return nil
}

// showLogs prints the errors and the log of a job.
func showLogs(g *view.Globals, job v1.Job) error {
	if g.JSON {
		return g.WriteJSON(job)
	}
	var b strings.Builder
	for _, a := range job.History {
		fmt.Fprintf(&b, "attempt %d  %s\n%s", a.Number, a.End, lines(view.PlainOrSealed(a.Error)))
	}
	if job.Log != "" {
		fmt.Fprintf(&b, "attempt %d  %s\n%s", job.Attempts, job.Status, lines(view.PlainOrSealed(job.Log)))
	}
	return g.Printf("%s", b.String())
}

// lines returns a text that ends its last line.
func lines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
