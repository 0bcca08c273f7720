package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "osqueue/client/api/v1"
)

// Flow builds a batch whose jobs run after each other. Its zero value with an ID is an empty flow. It is not safe for concurrent
// use.
type Flow struct {
	ID string

	jobs []NewJob
	errs []error
}

// Step adds a job under a name, which the flow does not have yet, after those of earlier names. Its id is that of the flow, a
// point and the name; its claim has the results of the jobs before it under their names.
func (f *Flow) Step(name string, job NewJob, after ...string) {
	known := func(name string) bool {
		return slices.ContainsFunc(f.jobs, func(j NewJob) bool { return j.Step == name })
	}
	if name == "" || known(name) {
		f.errs = append(f.errs, fmt.Errorf("the name %q of a step is empty or there twice", name))
	}
	if job.After != nil || job.AfterNames != nil {
		f.errs = append(f.errs, fmt.Errorf("step %q has After or AfterNames of its own; name the steps before it", name))
	}
	job.ID, job.Step, job.AfterNames = f.StepID(name), name, after
	job.After = make([]string, len(after))
	for i, earlier := range after {
		if !known(earlier) {
			f.errs = append(f.errs, fmt.Errorf("step %q runs after %q, which was not added before it", name, earlier))
		}
		job.After[i] = f.StepID(earlier)
	}
	f.jobs = append(f.jobs, job)
}

// StepID returns the id of the job of a step.
func (f *Flow) StepID(name string) string { return f.ID + "." + name }

var errNoFlow = errors.New("the flow has no id, or no steps")

// Start makes the batch of the flow, with its jobs. Repeated, it changes nothing.
func (f *Flow) Start(ctx context.Context, c *Client) (v1.BatchCreated, error) {
	if f.ID == "" || len(f.jobs) == 0 {
		f.errs = append(f.errs, errNoFlow)
	}
	if err := errors.Join(f.errs...); err != nil {
		return v1.BatchCreated{}, local("start flow", err)
	}
	return c.CreateBatch(ctx, NewBatch{ID: f.ID, Jobs: f.jobs})
}

// RetryFlow makes a job of a batch, by its step or id, and those that run after it as new, also those that have completed; fresh
// drops their steps and signals. It returns their number.
func (c *Client) RetryFlow(ctx context.Context, batchID, from string, fresh bool) (uint64, error) {
	out, err := sendWrite[v1.FlowRetried](ctx, c.caller, call{
		op: "retry flow", prefix: v1.PathBatches, name: batchID, action: v1.ActionRetry, in: &v1.RetryFlow{From: from, Fresh: fresh},
	})
	return out.Count, err
}
