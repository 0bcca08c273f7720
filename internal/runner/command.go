package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

// CommandConfig configures how a command runs. The zero value works.
type CommandConfig struct {
	// Box runs the commands. The caller closes it after the worker's end. Default: a box
	// of the level None.
	Box *sandbox.Box
	// OnExit maps exit statuses to actions. Default: DefaultExits.
	OnExit ExitPolicy
}

func (c CommandConfig) withDefaults() (CommandConfig, error) {
	if c.Box == nil {
		var err error
		if c.Box, err = sandbox.New(context.Background(), sandbox.Config{}); err != nil {
			return c, err
		}
	}
	if c.OnExit == nil {
		c.OnExit = DefaultExits()
	}
	return c, nil
}

// Command returns a handler as CommandWith does for the zero CommandConfig.
func Command(line string) (worker.HandlerFunc, error) { return CommandWith(CommandConfig{}, line) }

// CommandWith returns a handler that runs a program for each job. The program reads the
// payload from its stdin, and its stdout becomes the result: valid JSON as it is, other
// text as a JSON string without its last line break, and empty output as no result. The
// end of stderr becomes the log of the attempt, and those who follow the job see stderr as it is
// written. If the exit status is not 0, the attempt
// fails, and its error quotes the end of stderr. When the context ends, the program and
// all processes that it has started (in the level None: its process group) get SIGTERM,
// and SIGKILL after sandbox.KillDelay.
//
// The handler splits the line into words and expands its variables, as a POSIX shell
// does. There is no shell, and so there are no pipes and no redirections: for these
// write sh -c '…'. A word with {{…}} is a template (text/template) whose dot is the
// payload: {{.url}}. The word remains one argument for every payload; an object or list
// in it is JSON. If a payload lacks a field of a template, the job becomes dead. Put --
// before an argument that must not become an option.
//
// The environment consists of the box's variables (in the level None: the worker's) and
// of OSQUEUE_JOB_ID, OSQUEUE_JOB_TYPE, OSQUEUE_ATTEMPT, OSQUEUE_FENCING_TOKEN
// (the fencing token of the claim) and, if the job has a valid header traceparent, TRACEPARENT. What the job has kept is in
// OSQUEUE_STEPS, OSQUEUE_SIGNALS and OSQUEUE_PARENTS. Variables in the line expand to the worker's values.
func CommandWith(cfg CommandConfig, line string) (worker.HandlerFunc, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	parsed, err := parseLine(line, cfg.Box)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		args, err := parsed.args(job)
		if err != nil {
			return nil, worker.Permanent(err)
		}
		res, err := runIn(ctx, cfg.Box, job, sandbox.Command{Args: args, Env: append(jobEnv(job), keptEnv(job)...), Stdin: job.Payload})
		if err != nil {
			if res.Exit > 0 && cfg.OnExit.action(res.Exit).Suspend {
				return nil, suspend(ctx, job, res.Stdout)
			}
			return nil, cfg.OnExit.failure(res, err)
		}
		job.SetLog(res.Log)
		return commandResult(res.Stdout), nil
	}, nil
}

// runIn runs the command of a job. Clients that follow the job get stderr as it is written. The
// attempt has no log in its report, unless the caller sets one: an error quotes stderr itself.
func runIn(ctx context.Context, box *sandbox.Box, job worker.Job, c sandbox.Command) (sandbox.Result, error) {
	c.Env = append([]string{"OSQUEUE_TOKEN="}, c.Env...) // the access token of the worker is not for the job
	c.Stderr = job.LogWriter()
	defer job.SetLog("")
	return box.Run(ctx, c)
}

// commandResult converts the stdout of a program to JSON.
func commandResult(out []byte) json.RawMessage {
	trimmed := bytes.TrimSpace(out)
	switch {
	case len(trimmed) == 0:
		return nil
	case v1.ValidJSON(trimmed):
		return trimmed
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(out), "\n"), "\r")
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return json.RawMessage(`""`) // not reached: the text is valid UTF-8
	}
	return quoted
}
