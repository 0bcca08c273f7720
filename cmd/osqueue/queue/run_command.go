package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/runner"
)

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
		return commandOutcome{status: view.ExitNotRun, fault: fmt.Errorf("job %s is %s: %s", job.ID, view.TextOr(job.Status, "gone"), view.TextOr(view.PlainOrSealed(job.LastError), "no reason is known"))}
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

func (o commandOutcome) line(r endedLine) commandLine {
	l := commandLine{Line: r.line, Input: r.input, ID: r.job.ID, Status: r.job.Status, Exit: o.Exit, Stdout: o.Stdout, Stderr: o.Stderr}
	if o.fault != nil {
		l.Error = o.fault.Error()
	}
	return l
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

// interrupted returns the error of a command that Ctrl-C has ended. text names the jobs
// that continue.
func interrupted(text string) error {
	return &view.ExitError{Code: view.ExitInterrupted, Err: errors.New(text)}
}

// leaving returns the error of a command that stops waiting for jobs. The jobs continue;
// how describes how to wait for them again.
func leaving(ctx context.Context, err error, jobs int, how string) error {
	text := goOn(jobs) + "; " + how
	switch {
	case errors.Is(err, syscall.EPIPE) && jobs == 0:
		return &view.ExitError{Code: view.ExitClosedPipe, Err: view.SilentError{}}
	case errors.Is(err, syscall.EPIPE):
		return &view.ExitError{Code: view.ExitClosedPipe, Err: errors.New(text)}
	case err == nil || ctx.Err() == nil && jobs == 0:
		return err
	case ctx.Err() != nil:
		return interrupted(text)
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// cutShort returns the error of a command that did not send all lines after a reported
// fault; how describes how to continue.
func cutShort(sent int, how string) error {
	if sent == 0 {
		return view.SilentError{}
	}
	return errors.New("not all lines were sent; correct the cause, and continue with the same command and " + how)
}

// closedPipe makes writes to a closed pipe fail instead of ending the process, until
// restore is called, so that the command can still print its advice.
func closedPipe() (restore func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// goOn describes the jobs that continue.
func goOn(jobs int) string {
	if jobs == 1 {
		return "1 job continues"
	}
	return fmt.Sprintf("%d jobs continue", jobs)
}
