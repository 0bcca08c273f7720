package runner

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

// startPause keeps a job back whose program this machine does not have, so that
// it does not use all its attempts here in a moment.
const startPause = 10 * time.Second

// CommandConfig says how a command is run. The zero value works.
type CommandConfig struct {
	// Box is where commands run; the caller closes it after the worker's end.
	// Default: one of the level None.
	Box *sandbox.Box
	// OnExit says what follows on an exit status. Default: DefaultExits.
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

// Command is CommandWith of the zero CommandConfig.
func Command(line string) (worker.HandlerFunc, error) { return CommandWith(CommandConfig{}, line) }

// CommandWith returns a handler that runs a program for each job: the payload on
// its stdin, its stdout the result. Stdout that is JSON becomes the result as
// it is, other text a JSON string without its last line break, nothing no
// result. The end of stderr becomes the log of the attempt. An exit status other
// than 0 is a failure that quotes it instead. When the context ends, the program
// and what it has started (in the level None: its process group) get SIGTERM,
// and SIGKILL two seconds later.
//
// The line is split into words, and its variables expanded, as a POSIX shell
// would; there is no shell, so no pipes and no redirections: for these write
// sh -c '…'. A word with {{…}} is a template (text/template) of which the
// payload is the dot: {{.url}}. Whatever the payload says, such a word is one
// argument; an object or list in it is JSON. A payload that lacks what a
// template names fails the job for good. Put -- before an argument that must
// not be taken for an option.
//
// The environment is that of the box (in the level None: of the worker) and
// OSQUEUE_JOB_ID, OSQUEUE_JOB_TYPE, OSQUEUE_ATTEMPT and OSQUEUE_TOKEN (the
// fencing token of the claim). Variables in the line are the worker's.
func CommandWith(cfg CommandConfig, line string) (worker.HandlerFunc, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	parsed, err := parseLine(line, cfg.Box)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, job worker.Job) (jsontext.Value, error) {
		args, err := parsed.args(job)
		if err != nil {
			return nil, worker.Permanent(err)
		}
		res, err := cfg.Box.Run(ctx, sandbox.Command{Args: args, Env: jobEnv(job), Stdin: job.Payload})
		if err != nil {
			return nil, cfg.OnExit.failure(res, err)
		}
		job.Log(res.Log)
		return commandResult(res.Stdout), nil
	}, nil
}

func jobEnv(job worker.Job) []string {
	return []string{
		"OSQUEUE_JOB_ID=" + job.ID,
		"OSQUEUE_JOB_TYPE=" + job.Type,
		"OSQUEUE_ATTEMPT=" + strconv.Itoa(job.Attempt),
		"OSQUEUE_TOKEN=" + strconv.FormatUint(job.Token, 10),
	}
}

// commandResult makes JSON of what a program wrote.
func commandResult(out []byte) jsontext.Value {
	trimmed := jsontext.Value(bytes.TrimSpace(out))
	switch {
	case len(trimmed) == 0:
		return nil
	case trimmed.IsValid():
		return trimmed
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(out), "\n"), "\r")
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return jsontext.Value(`""`) // not reached: the text is valid UTF-8
	}
	return quoted
}

// cannotStart says whether the program could not be started on this machine,
// though it may on another.
func cannotStart(err error) bool {
	var ended *exec.ExitError
	return !errors.As(err, &ended) &&
		(errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission))
}

// malformed says whether the system cannot take the arguments at all: they are
// too long, or hold a NUL.
func malformed(err error) bool {
	return errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.EINVAL)
}

// withLog adds the end of stderr to an error.
func withLog(err error, log string) error {
	if log == "" {
		return err
	}
	return &worker.LoggedError{Err: err, Log: log}
}
