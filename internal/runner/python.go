package runner

import (
	"cmp"
	"context"
	_ "embed" // the program that runs the code
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

//go:embed python_exec.py
var pythonProgram string

// pythonRefused is the status of python_exec.py for a job that no attempt can complete:
// EX_DATAERR of sysexits.h.
const pythonRefused = 65

// Python returns a handler for jobs of the type python_exec. The payload contains
// "code", Python source, and the name of a "function" in it. The handler calls the
// function with "args", a list, and "kwargs", an object. The function's return value, as
// JSON, becomes the result; the traceback of an exception fails the attempt. Output that
// the code prints goes to the attempt's log. The interpreter ("" is python3) runs
// isolated (-I): it sees neither the worker's directory nor its variables.
func Python(box *sandbox.Box, interpreter string) (worker.HandlerFunc, error) {
	interpreter = cmp.Or(interpreter, "python3")
	if err := box.Look(interpreter); err != nil {
		return nil, fmt.Errorf("python: %w", err)
	}
	args := []string{interpreter, "-I", "-c", pythonProgram}
	return func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		if err := checkPython(job.Payload); err != nil {
			return nil, worker.Permanent(err)
		}
		res, err := runIn(ctx, box, job, sandbox.Command{Args: args, Env: jobEnv(job), Stdin: job.Payload})
		var ended *exec.ExitError
		switch {
		case err == nil:
			job.SetLog(res.Log)
			return commandResult(res.Stdout), nil
		case cannotStart(err):
			return nil, worker.RetryAfter(startPause, withLog(err, res.Log))
		case errors.As(err, &ended) && res.Exit == pythonRefused:
			return nil, worker.Permanent(errors.New(res.Log))
		case errors.As(err, &ended) && res.Exit == 1 && res.Log != "":
			return nil, errors.New(res.Log) // the traceback contains the whole reason
		}
		return nil, withLog(err, res.Log)
	}, nil
}

// pythonPayload is the payload of a python_exec job.
type pythonPayload struct {
	Code     *string                    `json:"code"`
	Function string                     `json:"function"`
	Args     []json.RawMessage          `json:"args"`
	Kwargs   map[string]json.RawMessage `json:"kwargs"`
}

func checkPython(payload json.RawMessage) error {
	var p pythonPayload
	if err := readPayload(payload, &p); err != nil {
		return fmt.Errorf(`%w; it takes {"code": "SOURCE", "function": "NAME", "args": [], "kwargs": {}}`, err)
	}
	if p.Code == nil || p.Function == "" {
		return errors.New(`the payload needs "code" and "function"`)
	}
	return nil
}
