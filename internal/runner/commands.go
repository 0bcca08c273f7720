package runner

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

// CommandPayload is the payload of a job that names its own command.
type CommandPayload struct {
	Argv  []string          `json:"argv"` // the program and its arguments; there is no shell
	Stdin string            `json:"stdin,omitzero"`
	Env   map[string]string `json:"env,omitzero"` // in addition to the box's variables
}

// CommandResult is the result of a job with a CommandPayload.
type CommandResult struct {
	Exit   int    `json:"exit"` // the exit status; 128 and the signal's number if a signal ended it
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"` // only the end if it is long
}

// Exit statuses that shells use.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Commands returns a handler that runs the command in the payload, a CommandPayload.
// Every producer that may enqueue such a job can run programs on this worker. A program
// that ends by itself completes the job with a CommandResult, whatever its status. If
// the program is not found or cannot be executed, the status is 127 or 126, as in a
// shell. If the worker ends the program because of a limit, the attempt fails. The
// result contains stderr, so the attempt has no log.
func Commands(box *sandbox.Box) worker.HandlerFunc {
	return func(ctx context.Context, job worker.Job) (stdjson.RawMessage, error) {
		var p CommandPayload
		if err := readPayload(job.Payload, &p); err != nil {
			return nil, worker.Permanent(fmt.Errorf(`%w; it takes {"argv": ["PROGRAM", "ARGUMENT"], "env": {}, "stdin": ""}`, err))
		}
		cmd, err := p.command(job)
		if err != nil {
			return nil, worker.Permanent(err)
		}
		res, err := runIn(ctx, box, job, cmd)
		result, err := commandsEnd(res, err)
		if err != nil {
			return nil, err
		}
		out, err := json.Marshal(result, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, worker.Permanent(fmt.Errorf("write the result: %w", err))
		}
		return out, nil
	}
}

var errArgv = errors.New(`the payload has no "argv", a list of the program and its arguments`)

func (p CommandPayload) command(job worker.Job) (sandbox.Command, error) {
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return sandbox.Command{}, errArgv
	}
	if slices.ContainsFunc(p.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return sandbox.Command{}, errors.New("an argument contains a NUL")
	}
	env := make([]string, 0, len(p.Env))
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return sandbox.Command{}, fmt.Errorf("environment variable %q: the name must not be empty or contain = or NUL, and the value must not contain NUL", name)
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return sandbox.Command{Args: p.Argv, Env: append(env, jobEnv(job)...), Stdin: []byte(p.Stdin)}, nil
}

// commandsEnd returns the result of a program that has ended by itself.
func commandsEnd(res sandbox.Result, err error) (CommandResult, error) {
	out := CommandResult{Exit: res.Exit, Stdout: string(res.Stdout), Stderr: res.Log}
	var ended *exec.ExitError
	switch {
	case err == nil:
		return out, nil
	case sandbox.IsLimit(err):
		return out, withLog(err, res.Log)
	case errors.As(err, &ended):
		out.Exit = exitStatus(ended)
		return out, nil
	case errors.Is(err, exec.ErrNotFound):
		return CommandResult{Exit: exitNotFound, Stderr: err.Error()}, nil
	case cannotStart(err):
		return CommandResult{Exit: exitNotExecutable, Stderr: err.Error()}, nil
	case malformed(err):
		return out, worker.Permanent(err)
	}
	return out, withLog(err, res.Log)
}

// exitStatus returns the status that a shell would report.
func exitStatus(err *exec.ExitError) int {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() { // never on Windows
		return 128 + int(status.Signal())
	}
	return err.ExitCode()
}

// readPayload decodes a payload. It accepts all JSON that the cluster accepts from
// producers.
func readPayload(payload []byte, out any, more ...json.Options) error {
	more = append(more, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(payload, out, more...); err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	return nil
}
