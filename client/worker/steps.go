package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// ErrNoSignal is wrapped by the error of WaitSignal for a signal that did not come in time.
var ErrNoSignal = errors.New("the signal did not come in time")

// memory has what a job keeps over its attempts.
type memory struct {
	queue Queue
	lease client.Lease

	mu     sync.Mutex
	steps  map[string]json.RawMessage
	sleeps int // of this attempt
}

func newMemory(queue Queue, job client.ClaimedJob) *memory {
	m := &memory{queue: queue, lease: job.Lease(), steps: make(map[string]json.RawMessage)}
	for _, s := range job.Steps {
		m.steps[s.Name] = s.Value
	}
	return m
}

// step returns the value of a step, if the job has it.
func (m *memory) step(name string) (json.RawMessage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, there := m.steps[name]
	return value, there
}

// store stores a step, over failovers, until the cluster accepts or refuses it or ctx ends. It returns the value that counts.
func (m *memory) store(ctx context.Context, name string, value json.RawMessage) (json.RawMessage, error) {
	for pauses := newPauses(); ; {
		kept, err := m.queue.StoreStep(ctx, m.lease, name, value)
		switch {
		case err == nil:
			m.mu.Lock()
			defer m.mu.Unlock()
			m.steps[name] = kept
			return kept, nil
		case client.IsLeaseLost(err), ctx.Err() != nil:
			return nil, err
		case refused(err):
			return nil, Permanent(fmt.Errorf("store the step %q: %w", name, err))
		}
		sleep.For(ctx, pauses.NextBackOff())
	}
}

// Step calls fn once for a job, over all its attempts and retries: the result is stored under the job and the name, and a later
// attempt gets it without a call. An error of fn is not stored. If an attempt ends while fn runs, fn is called again: it should
// use the job's id and the name as the idempotency key of what it calls. The result is JSON, at most 64 KiB.
func Step[T any](ctx context.Context, job Job, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var out T
	if job.memory == nil { // a test runs the handler alone
		return fn(ctx)
	}
	kept, there := job.memory.step(name)
	if !there {
		made, err := fn(ctx)
		if err != nil {
			return made, err
		}
		value, err := json.Marshal(made)
		if err != nil {
			return made, Permanent(fmt.Errorf("write the step %q: %w", name, err))
		}
		if kept, err = job.memory.store(ctx, name, value); err != nil {
			return made, err
		}
	}
	if err := json.Unmarshal(kept, &out); err != nil {
		return out, Permanent(fmt.Errorf("read the step %q: %w", name, err))
	}
	return out, nil
}

// deadline returns the time that a step has, which is d from now if it is new.
func (j Job) deadline(ctx context.Context, name string, d time.Duration) (time.Time, error) {
	ms, err := Step(ctx, j, name, func(context.Context) (int64, error) { return time.Now().Add(d).UnixMilli(), nil })
	return time.UnixMilli(ms), err
}

// Suspend returns the error of a handler that waits for something, which ends the attempt without counting it. Sleep, WaitSignal
// and WaitChildren say in addition, in a later attempt, that it has come.
func Suspend(s client.Suspension) error { return &suspendedError{s} }

// suspended returns the error of a handler that waits until a time. It sends the rest of the wait, not the time: if the clock of the
// cluster is ahead of this one, the wait would end at once.
func suspended(until time.Time, signal string) error {
	return Suspend(client.Suspension{For: max(time.Until(until), time.Millisecond), Signal: signal})
}

// suspendedError is the error of a handler that waits for something without a worker.
type suspendedError struct{ until client.Suspension }

func (e *suspendedError) Error() string {
	switch s := e.until; {
	case s.BatchID != "":
		return "the job waits for the batch " + s.BatchID
	case s.Signal != "":
		return "the job waits for the signal " + s.Signal
	}
	return "the job sleeps for " + e.until.For.String()
}

// Sleep returns nil when d has passed since the job first came here. Before that it returns an error, which the handler must
// return: it ends the attempt, which does not count, and frees the worker. A job that sleeps several times must do so in the same
// order in each attempt.
func (j Job) Sleep(ctx context.Context, d time.Duration) error {
	n := 1
	if j.memory != nil {
		j.memory.mu.Lock()
		j.memory.sleeps++
		n = j.memory.sleeps
		j.memory.mu.Unlock()
	}
	until, err := j.deadline(ctx, "sleep:"+strconv.Itoa(n), d)
	if err != nil || !time.Now().Before(until) {
		return err
	}
	return suspended(until, "")
}

// WaitSignal returns the value of the first signal of a name that the job was sent, also before it came here; later attempts get
// the same. Until there is one it returns an error, which the handler must return: it ends the attempt, which does not count.
// When timeout has passed since the job first came here, the error is ErrNoSignal.
func (j Job) WaitSignal(ctx context.Context, name string, timeout time.Duration) (json.RawMessage, error) {
	kept := "signal:" + name
	if j.memory != nil {
		if value, there := j.memory.step(kept); there {
			return value, nil
		}
	}
	i := slices.IndexFunc(j.Signals, func(s v1.Signal) bool { return s.Name == name })
	if i >= 0 {
		value := j.Signals[i].Value
		if value == nil {
			value = json.RawMessage("null")
		}
		return Step(ctx, j, kept, func(context.Context) (json.RawMessage, error) { return value, nil })
	}
	until, err := j.deadline(ctx, "wait:"+name, timeout)
	switch {
	case err != nil:
		return nil, err
	case !time.Now().Before(until):
		return nil, fmt.Errorf("%w: %s", ErrNoSignal, name)
	}
	return nil, suspended(until, name)
}

// AddChildren adds jobs as a batch of the job, once over all its attempts. Children without an id get one of the job's, the name
// of the batch and a number, so that no attempt adds them twice.
func (j Job) AddChildren(ctx context.Context, name string, jobs []client.NewJob) error {
	batch := j.childBatch(name)
	_, err := Step(ctx, j, "children:"+name, func(ctx context.Context) ([]string, error) {
		ids, children := make([]string, len(jobs)), slices.Clone(jobs)
		for i := range children {
			if children[i].ID == "" {
				children[i].ID = batch + "." + strconv.Itoa(i)
			}
			ids[i] = children[i].ID
		}
		if j.memory == nil {
			return ids, nil
		}
		_, err := j.memory.queue.CreateBatch(ctx, client.NewBatch{ID: batch, Jobs: children, Parent: new(j.Lease())})
		return ids, err
	})
	return err
}

func (j Job) childBatch(name string) string { return j.ID + "." + name }

// WaitChildren returns the children that AddChildren has added under a name, in that order, when all have ended, however they
// have. Before that it returns an error, which the handler must return: it ends the attempt, which does not count, and frees the
// worker.
func (j Job) WaitChildren(ctx context.Context, name string) ([]v1.Job, error) {
	if j.memory == nil {
		return nil, nil
	}
	raw, there := j.memory.step("children:" + name)
	var ids []string
	if err := json.Unmarshal(raw, &ids); !there || err != nil {
		return nil, Permanent(fmt.Errorf("the job has no children %q: call AddChildren first", name))
	}
	batch, err := j.memory.queue.Batch(ctx, j.childBatch(name))
	switch {
	case err != nil:
		return nil, err
	case batch.EndedAt == 0:
		return nil, Suspend(client.Suspension{BatchID: batch.ID})
	}
	out := make([]v1.Job, len(ids))
	for i, id := range ids {
		if out[i], err = j.memory.queue.Job(ctx, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Parent returns a job that this one was enqueued to run after, by its name, its step or its id.
func (j Job) Parent(name string) (v1.Parent, bool) {
	i := slices.IndexFunc(j.Parents, func(p v1.Parent) bool { return p.Name == name })
	if i < 0 {
		return v1.Parent{}, false
	}
	return j.Parents[i], true
}
