package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	"osqueue/client/worker"
)

// A command has no memory of its own between attempts. It gets what its job has kept in its environment, and ends with an exit
// status that means "suspend" and a last line on stdout that says what to keep, and for what to wait:
//
//	{"steps":{"charge":{"id":7}},"sleep":"72h"}
//	{"signal":"approved","timeout":"24h"}

// suspendExit is the exit status by which a command suspends its job. It is the first one behind those of sysexits.h.
const suspendExit = 79

// suspension is the last line of such a command.
type suspension struct {
	Steps   map[string]jsontext.Value `json:"steps"`
	Sleep   string                    `json:"sleep"`
	Signal  string                    `json:"signal"`
	Timeout string                    `json:"timeout"` // of the signal
}

var errSuspension = errors.New(`a command that suspends its job says for what, in the last line of its stdout: {"sleep":"72h"}, or {"signal":"approved","timeout":"24h"}; ` +
	`"steps" has values to keep by their names`)

// suspend stores the steps of the last line of a command, and returns the error that suspends its job.
func suspend(ctx context.Context, job worker.Job, stdout []byte) error {
	lines := bytes.Split(bytes.TrimSpace(stdout), []byte("\n"))
	var s suspension
	if err := json.Unmarshal(lines[len(lines)-1], &s, json.RejectUnknownMembers(true)); err != nil {
		return worker.Permanent(fmt.Errorf("%w: %w", errSuspension, err))
	}
	text := s.Sleep
	if s.Signal != "" {
		text = s.Timeout
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || s.Signal != "" && s.Sleep != "" {
		return worker.Permanent(errSuspension)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Steps)) {
		value := s.Steps[name]
		if _, err := worker.Step(ctx, job, name, func(context.Context) (jsontext.Value, error) { return value, nil }); err != nil {
			return err
		}
	}
	return worker.Suspend(client.Suspension{For: d, Signal: s.Signal})
}

// keptMax is the largest variable with what a job has kept: a system takes 128 KiB.
const keptMax = 100 << 10

// keptEnv returns the variables with the steps, the signals, and the results of the jobs before, as JSON objects by name. One that
// would be empty, or too large, is left out. Of several signals of a name the first counts.
func keptEnv(job worker.Job) (env []string) {
	steps, signals, parents := make(map[string]jsontext.Value), make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	for _, s := range job.Steps {
		steps[s.Name] = orNull(s.Value)
	}
	for _, s := range slices.Backward(job.Signals) {
		signals[s.Name] = orNull(s.Value)
	}
	for _, p := range job.Parents {
		parents[p.Name] = orNull(p.Result)
	}
	for _, one := range []struct {
		name string
		of   map[string]jsontext.Value
	}{{"OSQUEUE_STEPS", steps}, {"OSQUEUE_SIGNALS", signals}, {"OSQUEUE_PARENTS", parents}} {
		text, err := json.Marshal(one.of, json.Deterministic(true))
		if err == nil && len(one.of) > 0 && len(text) <= keptMax {
			env = append(env, one.name+"="+string(text))
		}
	}
	return env
}

func orNull(raw []byte) jsontext.Value {
	if raw == nil {
		return jsontext.Value("null")
	}
	return raw
}
