package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// idleNotice is the time without a worker after which waiting commands print a hint.
const idleNotice = 2 * time.Second

// oneJob enqueues one job, and waits for its end by a long poll: it is the watcher of commands for one job.
type oneJob struct {
	g    *view.Globals
	c    *client.Client
	got  client.Enqueued
	sent chan string // has the id when the job is enqueued
	bare bool        // the job is sent without an id, which errors would name
}

// pipeline returns the pipeline of a command that enqueues one job, or that waits for a job which exists.
func (o *oneJob) pipeline() *pipeline {
	o.sent = make(chan string, 1)
	return &pipeline{g: o.g, c: o.c, enqueue: o.enqueue, watch: o, progress: o.g.NewProgress(true), window: 1, each: o.show, start: startExec}
}

// enqueue enqueues the job, unless it exists.
func (o *oneJob) enqueue(ctx context.Context, jobs []client.NewJob) (out client.BatchEnqueued, err error) {
	if o.bare {
		jobs[0].ID = ""
	}
	if o.got.JobID == "" {
		if o.got, err = o.c.Enqueue(ctx, jobs[0]); err == nil {
			err = noteHolder(o.g, o.got)
		}
	}
	return client.BatchEnqueued{JobIDs: []string{o.got.JobID}}, err
}

// Add implements watcher: the job is enqueued.
func (o *oneJob) Add(...string) { o.sent <- o.got.JobID }

// Next implements watcher.
func (o *oneJob) Next(ctx context.Context) (v1.Job, error) {
	select {
	case id := <-o.sent:
		return endOf(ctx, o.c, id, 0)
	case <-ctx.Done():
		return v1.Job{}, context.Cause(ctx)
	}
}

// show prints the job's result, and nothing else.
func (o *oneJob) show(l *line) (err error) {
	job := l.ended
	if o.g.JSON {
		err = o.g.WriteJSON(job)
	} else if job.Result != nil {
		err = view.Write(o.g.Out, string(job.Result)+"\n") // unchanged, for programs
	}
	if err == nil && job.Status != v1.StatusCompleted {
		err = &client.JobError{Job: job}
	}
	return err
}

// run sends the job through the pipeline.
func (o *oneJob) run(ctx context.Context, p *pipeline, job client.NewJob) error {
	err := p.run(ctx, slices.Values([]*line{{job: job}}))
	return p.outcome(ctx, err, "", "wait for it again with: osqueue job wait "+view.ShellWord(cmp.Or(o.got.JobID, job.ID)))
}

// endOf calls WaitJob for callers that check the job's status themselves.
func endOf(ctx context.Context, c *client.Client, id string, atMost time.Duration) (v1.Job, error) {
	job, err := c.WaitJob(ctx, id, atMost)
	if errors.As(err, new(*client.JobError)) {
		err = nil
	}
	return job, err
}

const (
	startCommands = "osqueue worker --commands %s"
	startExec     = "osqueue worker --exec %s=COMMAND"
)

// noWorker returns a hint if no worker takes jobs of a type. If a worker does, or if the
// answer is not known, it returns "".
func noWorker(ctx context.Context, c *client.Client, jobType, start string) string {
	workers, err := c.Workers(ctx)
	if err != nil || slices.ContainsFunc(workers, func(w v1.Worker) bool { return w.Takes(jobType) }) {
		return ""
	}
	return fmt.Sprintf("no worker takes jobs of type %s; start one with: %s\n", view.ShellWord(jobType), strings.Replace(start, "%s", view.ShellWord(jobType), 1))
}

// outcomeOf is a job's result, as it is, or why there is none, in a line.
func outcomeOf(job v1.Job) string {
	if job.Status != v1.StatusCompleted {
		return view.PlainLine(view.FirstLine(view.PlainOrSealed(job.LastError)))
	}
	return string(job.Result)
}

func newJobWaitCommand(g *view.Globals) *cobra.Command {
	atMost := time.Hour
	cmd := &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait for jobs, and print their results",
		Long: `Waits until the jobs have ended. For one job the output is its result; for several
jobs it is a line for each, in the given order: id, status, and the result or the
error. With --json each line is one job.

The exit status is 0 if all of them completed, 1 if one is dead, cancelled or expired, or
did not end in time.`,
		Example: `  osqueue job wait 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11 --wait-for 5m
  osqueue job ls --batch nightly --json | jq -r .id | xargs osqueue job wait`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if len(ids) == 1 {
					o := &oneJob{g: g, c: c, got: client.Enqueued{JobID: ids[0]}}
					p := o.pipeline()
					p.waitFor = atMost
					return o.run(ctx, p, client.NewJob{ID: ids[0]})
				}
				return waitMany(ctx, g, c, atMost, ids)
			})
		},
	}
	view.PositiveVar(cmd.Flags(), &atMost, "wait-for", atMost, "maximum time to wait for all jobs")
	return cmd
}

// waitMany waits for jobs in the order of ids, and prints each: those behind it may end meanwhile. A job that
// does not exist or end does not stop the others.
func waitMany(ctx context.Context, g *view.Globals, c *client.Client, atMost time.Duration, ids []string) error {
	end := time.Now().Add(atMost)
	var errs []error
	failed := 0
	for _, id := range ids {
		job, err := endOf(ctx, c, id, max(time.Until(end), time.Millisecond))
		if err != nil {
			errs = append(errs, fmt.Errorf("job %s: %w", id, err))
			if ctx.Err() != nil || !client.IsNotFound(err) && !errors.Is(err, client.ErrNotFinished) {
				break
			}
			continue
		}
		if job.Status != v1.StatusCompleted {
			failed++
		}
		if err := writeFinished(g, id, job); err != nil {
			return err
		}
	}
	if len(errs) == 0 && failed > 0 {
		return view.SilentError{}
	}
	return errors.Join(errs...)
}

// writeFinished is the line of a job that was waited for.
func writeFinished(g *view.Globals, id string, job v1.Job) error {
	if g.JSON {
		return g.WriteJSON(job)
	}
	return view.Write(g.Out, fmt.Sprintf("%s\t%s\t%s\n", view.PlainLine(id), job.Status, outcomeOf(job)))
}
