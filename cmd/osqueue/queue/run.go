package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/runner"
)

// runExitHelp ends the help of "osqueue run".
const runExitHelp = `Exit status: that of the command; 125 if it could not be run to its end; 130 after
Ctrl-C; 2 after a usage error.`

// runFlags are the flags of "osqueue run".
type runFlags struct {
	commandFlags
	id      string
	noStdin bool
	waitFor time.Duration
}

func newRunCommand(g *view.Globals) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run -- COMMAND [ARGUMENT]…",
		Short: "Run a command on a worker, with its output and exit status here",
		Long: `Submits a command line as a job, waits for its end, prints its stdout and stderr, and
exits with its exit status. The arguments are passed unchanged: for pipes and variables
write sh -c '…'. If stdin is a pipe, it is the command's stdin, up to 1 MiB of text. The
output appears when the command has ended.

` + commandHelp + `

Ctrl-C cancels the job, and waits until its worker has ended the command; a second
one does not wait. With --id the same command is taken up where it is: it is not
run twice.

` + view.UniqueHelp + "\n\n" + view.BackoffHelp + "\n\n" + runExitHelp,
		Example: `  osqueue run -- uname -a
  osqueue run --job-timeout 1h --env TERM -- make -C /srv/site test
  pg_dump shop | osqueue run -- sh -c 'gzip | wc -c'
  osqueue run --id nightly-2026-12-24 --max-attempts 1 -- /usr/local/bin/nightly`,
		RunE: func(cmd *cobra.Command, argv []string) error {
			return notRun(runRun(cmd.Context(), g, f, argv))
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // arguments after the command belong to the command
	f.bind(flags)
	flags.StringVar(&f.id, "id", "", "id of the job (default: a fresh UUID)")
	flags.BoolVar(&f.noStdin, "no-stdin", false, "do not read stdin")
	view.SpanVar(flags, &f.waitFor, "wait-for", 0, "maximum time to wait for its end (default: no limit)")
	return cmd
}

func runRun(ctx context.Context, g *view.Globals, f *runFlags, argv []string) error {
	if err := f.check(); err != nil {
		return err
	}
	job, err := f.newJob(ctx, g, argv)
	if err != nil {
		return err
	}
	return g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		r := &commandRun{g: g, c: c, flags: f}
		return r.run(ctx, job)
	})
}

func (f *runFlags) newJob(ctx context.Context, g *view.Globals, argv []string) (client.NewJob, error) {
	env, err := f.environment(g.Getenv)
	if err != nil {
		return client.NewJob{}, err
	}
	payload := runner.CommandPayload{Argv: argv, Env: env}
	if !f.noStdin {
		if payload.Stdin, err = commandStdin(ctx, g); err != nil {
			return client.NewJob{}, err
		}
	}
	job, err := f.job(payload)
	job.ID = view.TextOr(f.id, client.NewID())
	return job, err
}

// commandRun is one run of "osqueue run".
type commandRun struct {
	g     *view.Globals
	c     *client.Client
	flags *runFlags
	id    string
	ours  bool // the job is new, and not another one with the same unique key
}

func (r *commandRun) run(ctx context.Context, job client.NewJob) error {
	twice := context.AfterFunc(ctx, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends the process
	})
	defer twice()
	// An interrupted enqueue may still take effect. So run waits for its answer, and can
	// cancel the job then.
	enqueue, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.g.Timeout)
	defer cancel()
	got, err := r.c.Enqueue(enqueue, job)
	if err == nil {
		err = noteHolder(r.g, got)
	}
	if err != nil {
		return err
	}
	r.id, r.ours = got.JobID, got.Holder == ""
	ended, err := r.wait(ctx)
	switch {
	case err == nil:
		return r.finish(ended)
	case ctx.Err() != nil:
		return r.cancel(ctx)
	case errors.Is(err, client.ErrNotFinished), errors.As(err, new(*client.Error)):
		return fmt.Errorf("%w\nthe job continues; wait for it again with: osqueue job wait %s", err, view.ShellWord(r.id))
	}
	return err
}

// wait waits for the job's end.
func (r *commandRun) wait(ctx context.Context) (v1.Job, error) {
	return waitForEnd(ctx, r.g, r.c, awaited{id: r.id, limit: r.flags.waitFor, quiet: r.flags.quiet, start: startCommands})
}

// finish prints the command's output.
func (r *commandRun) finish(job v1.Job) error {
	o := outcomeOfCommand(job)
	if r.g.JSON {
		if err := r.g.WriteJSON(o.line(endedLine{job: job})); err != nil {
			return err
		}
	} else if err := errors.Join(view.Write(r.g.Out, o.Stdout), view.Write(r.g.Err, wholeLines(o.Stderr))); err != nil {
		return err
	}
	switch {
	case o.fault != nil:
		return o.fault
	case o.status != view.ExitOK:
		return &view.ExitError{Code: o.status, Err: view.SilentError{}}
	}
	return nil
}

// cancelWait bounds the wait for the end of a cancelled command: its worker learns of
// the cancellation with the next heartbeat.
const cancelWait = 30 * time.Second

// cancel handles Ctrl-C.
func (r *commandRun) cancel(ctx context.Context) error {
	leave := interrupted(fmt.Sprintf("job %s continues; cancel it with: osqueue job cancel %s", r.id, view.ShellWord(r.id)))
	if !r.ours {
		return leave
	}
	if !r.flags.quiet {
		_ = view.WritePlain(r.g.Err, fmt.Sprintf("cancelling job %s; press Ctrl-C again to exit without waiting\n", r.id))
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), r.g.Timeout+cancelWait)
	defer stop()
	if _, err := r.c.Cancel(ctx, r.id); err != nil && !client.HasTag(err, v1.TagWrongStatus) {
		return errors.Join(leave, err)
	}
	job, err := endOf(ctx, r.c, r.id, cancelWait)
	switch {
	case err != nil:
		return interrupted(fmt.Sprintf("job %s: cancellation requested, but its worker has not ended it yet: %v", r.id, err))
	case job.Status == v1.StatusCompleted: // it completed before the cancellation
		return r.finish(job)
	}
	return interrupted(fmt.Sprintf("job %s is %s", r.id, job.Status))
}
