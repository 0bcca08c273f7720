package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newJobLogsCommand(g *view.Globals) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the log of a job, and follow its attempts and progress",
		Long: `Prints the errors of the failed attempts, which contain the end of their logs, and the
log of the attempt that completed the job.

With --follow the command prints attempts, progress and the log as they happen, until
the job has ended. It begins with the events that the nodes keep, and up to 16 KiB of
the running attempt's log. A line appears about half a second after the job has written
it. The output continues over attempts, and if a worker or a node dies: no line is
printed twice, and a note shows how many bytes are missing if the job writes more than
about 64 KiB a second. The exit status is that of osqueue job wait: 0 if
the job completed, 1 if it is dead or cancelled. With --json each line is an event (parts
of the log have the kind job.log), and the last line is the job.

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
				return followJob(cmd.Context(), g, c, args[0])
			}
			job, err := readJob(cmd.Context(), g, c, args[0])
			if err != nil {
				return err
			}
			return showLogs(g, job, nil)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print attempts, progress and the log as they happen, until the job has ended")
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

// endLogs prints what was not followed of the logs of a job that has ended, and returns an error
// if it did not complete.
func endLogs(g *view.Globals, job v1.Job, seen followed) error {
	if err := showLogs(g, job, seen); err != nil {
		return err
	}
	if job.Status != v1.StatusCompleted {
		return &client.JobError{Job: job}
	}
	return nil
}

// showLogs prints the errors and the log of a job, except what was followed.
func showLogs(g *view.Globals, job v1.Job, seen followed) error {
	if g.JSON {
		return g.WriteJSON(job)
	}
	var b strings.Builder
	for _, a := range job.History {
		fmt.Fprintf(&b, "attempt %d  %s\n%s", a.Number, a.End, lines(view.PlainOrSealed(seen.restOfError(a.Number, a.Error))))
	}
	if job.Log != "" {
		fmt.Fprintf(&b, "attempt %d  %s\n%s", job.Attempts, job.Status, lines(view.PlainOrSealed(seen.restOfLog(job.Attempts, job.Log))))
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
