package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		twice := context.AfterFunc(ctx, func() {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends the process
		})
		defer twice()
		o := &oneJob{g: g, c: c}
		p := o.pipeline()
		p.waitFor, p.start, p.each = f.waitFor, startCommands, func(l *line) error { return finishCommand(g, l.ended) }
		// An interrupted enqueue may still take effect. So run waits for its answer, and can
		// cancel the job then.
		p.enqueue = func(ctx context.Context, jobs []client.NewJob) (client.BatchEnqueued, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.Timeout)
			defer cancel()
			return o.enqueue(ctx, jobs)
		}
		if f.quiet {
			p.start = ""
		}
		err := o.run(ctx, p, job)
		if ctx.Err() != nil && p.waiting() > 0 {
			return f.cancel(ctx, o, job.ID)
		}
		return err
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
	job.ID = cmp.Or(f.id, client.NewID())
	return job, err
}

// finishCommand prints the command's output.
func finishCommand(g *view.Globals, job v1.Job) error {
	o := outcomeOfCommand(job)
	if g.JSON {
		if err := g.WriteJSON(o.line(&line{ended: job})); err != nil {
			return err
		}
	} else if err := errors.Join(view.Write(g.Out, o.Stdout), view.Write(g.Err, wholeLines(o.Stderr))); err != nil {
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

// cancel handles Ctrl-C. A job that holds the unique key of this one is not cancelled.
func (f *runFlags) cancel(ctx context.Context, o *oneJob, id string) error {
	if o.got.Holder != "" {
		return interrupted(fmt.Sprintf("job %s continues; cancel it with: osqueue job cancel %s", o.got.Holder, view.ShellWord(o.got.Holder)))
	}
	if !f.quiet {
		_ = view.WritePlain(o.g.Err, fmt.Sprintf("cancelling job %s; press Ctrl-C again to exit without waiting\n", id))
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), o.g.Timeout+cancelWait)
	defer stop()
	if _, err := o.c.Cancel(ctx, id); err != nil && !client.HasTag(err, v1.TagWrongStatus) {
		return errors.Join(interrupted(fmt.Sprintf("job %s continues; cancel it with: osqueue job cancel %s", id, view.ShellWord(id))), err)
	}
	job, err := endOf(ctx, o.c, id, cancelWait)
	switch {
	case err != nil:
		return interrupted(fmt.Sprintf("job %s: cancellation requested, but its worker has not ended it yet: %v", id, err))
	case job.Status == v1.StatusCompleted: // it completed before the cancellation
		return finishCommand(o.g, job)
	}
	return interrupted(fmt.Sprintf("job %s is %s", id, job.Status))
}

// commandType is the type of the jobs of run and map.
const commandType = "command"

// commandHelp describes in run and map which workers run the commands.
const commandHelp = `Workers that were started with

  osqueue worker --commands command

run the commands; the options of the worker set their limits and isolation (see its
--help). A command that ends is not retried, whatever its exit status. A command whose
worker is lost, or that runs longer than --job-timeout, is retried, up to
--max-attempts times.`

// commandFlags are the flags that configure a command.
type commandFlags struct {
	jobFlags
	kind  string
	env   []string
	quiet bool
}

func (f *commandFlags) bind(flags *pflag.FlagSet) {
	f.jobFlags.bind(flags)
	flags.StringVar(&f.kind, "type", commandType, "type of the jobs, as in --commands of the workers")
	flags.StringArrayVar(&f.env, "env", nil, "NAME=VALUE in the command's environment, or NAME with its value here; may be given several times")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "write only errors and the commands' stderr to stderr")
}

// commandResult is a runner.CommandResult whose fields may be missing.
type commandResult struct {
	Exit   *int   `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// environment returns the variables of --env.
func (f *commandFlags) environment(getenv func(string) string) (map[string]string, error) {
	var env map[string]string
	for _, e := range f.env {
		name, value, given := strings.Cut(e, "=")
		if name == "" {
			return nil, view.Usagef("--env %q: write NAME=VALUE, or NAME", e)
		}
		if !given {
			value = getenv(name)
		}
		if env == nil {
			env = make(map[string]string)
		}
		env[name] = value
	}
	return env, nil
}

// job returns a job that runs a command.
func (f *commandFlags) job(p runner.CommandPayload) (client.NewJob, error) {
	if p.Argv[0] == "" {
		return client.NewJob{}, view.Usagef("the command is empty")
	}
	payload, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return client.NewJob{}, fmt.Errorf("the command must be UTF-8: %w", err)
	}
	if len(payload) > maxPayload {
		return client.NewJob{}, fmt.Errorf("the command takes %d bytes as a job, more than %d", len(payload), maxPayload)
	}
	job := f.jobFlags.job()
	job.Type, job.Payload = f.kind, payload
	return job, nil
}

var errNotText = errors.New("stdin is not UTF-8 text; store it elsewhere, and let the command fetch it")

// commandStdin returns the text that is piped to this process.
func commandStdin(ctx context.Context, g *view.Globals) (string, error) {
	if !piped(g.In) {
		return "", nil
	}
	text, err := io.ReadAll(io.LimitReader(g.Stdin(ctx), maxPayload+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read stdin: %w", err)
	case len(text) > maxPayload:
		return "", fmt.Errorf("stdin has more than %d bytes; store it elsewhere, and let the command fetch it", maxPayload)
	case !utf8.Valid(text):
		return "", errNotText
	}
	return string(text), nil
}

// commandOutcome is the outcome of a command.
type commandOutcome struct {
	commandResult
	status int   // the exit status of this process
	fault  error // why the command did not end by itself; nil: it did
}

func outcomeOfCommand(job v1.Job) commandOutcome {
	if job.Status != v1.StatusCompleted {
		return commandOutcome{status: view.ExitNotRun, fault: fmt.Errorf("job %s is %s: %s", job.ID, cmp.Or(job.Status, "gone"), cmp.Or(view.PlainOrSealed(job.LastError), "no reason is known"))}
	}
	var o commandOutcome
	err := json.Unmarshal(job.Result, &o.commandResult, jsontext.AllowInvalidUTF8(true))
	switch {
	case job.Result == nil:
		err = errors.New("the result of the job is no longer stored")
	case err == nil && o.Exit == nil:
		err = errors.New("the result of the job is not the result of a command")
	}
	if err != nil {
		o.status, o.fault = view.ExitNotRun, fmt.Errorf("job %s has completed, but: %w", job.ID, err)
		return o
	}
	if o.status = *o.Exit; o.status < 0 || o.status > 255 {
		o.status = 255
	}
	return o
}

// commandLine is the JSON form of the outcome.
type commandLine struct {
	Line   int    `json:"line,omitzero"`
	Input  string `json:"input,omitzero"`
	ID     string `json:"id"`
	Status string `json:"status,omitzero"`
	Exit   *int   `json:"exit,omitzero"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Error  string `json:"error,omitzero"`
}

func (o commandOutcome) line(l *line) commandLine {
	out := commandLine{Line: l.number, Input: l.text, ID: l.ended.ID, Status: l.ended.Status, Exit: o.Exit, Stdout: o.Stdout, Stderr: o.Stderr}
	if o.fault != nil {
		out.Error = o.fault.Error()
	}
	return out
}

// wholeLines ends a text with a line break, so that the outputs of two commands never
// share a line.
func wholeLines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// notRun marks err as a failure that is not the command's.
func notRun(err error) error {
	if err == nil || errors.As(err, new(*view.ExitError)) || view.ExitCode(err) == view.ExitUsage {
		return err
	}
	return &view.ExitError{Code: view.ExitNotRun, Err: err}
}
