package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// idleNotice is the time without a worker after which waiting commands print a hint.
const idleNotice = 2 * time.Second

// awaited describes a job whose end a command waits for.
type awaited struct {
	id    string
	limit time.Duration // 0: none
	quiet bool          // no notices
	start string        // how to start a worker for it, with %s for the type
}

// waitForEnd returns the job when it has ended, with any status. If no worker takes jobs of
// its type after idleNotice, it prints a hint on stderr.
func waitForEnd(ctx context.Context, g *view.Globals, c *client.Client, a awaited) (v1.Job, error) {
	if a.quiet || (a.limit > 0 && a.limit < idleNotice) {
		return endOf(ctx, c, a.id, a.limit)
	}
	job, err := endOf(ctx, c, a.id, idleNotice)
	if err == nil || ctx.Err() != nil || client.IsNotFound(err) {
		return job, err
	}
	// Other errors are not final: such a short wait fails during a failover.
	if errors.Is(err, client.ErrNotFinished) && job.Status == v1.StatusUnclaimed {
		_ = view.WritePlain(g.Err, noWorker(ctx, c, job.Type, a.start))
	}
	if a.limit > 0 {
		a.limit = max(a.limit-idleNotice, time.Millisecond)
	}
	return endOf(ctx, c, a.id, a.limit)
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

// waitFinished prints a job's result, and nothing else.
func waitFinished(ctx context.Context, g *view.Globals, c *client.Client, atMost time.Duration, id string) error {
	job, err := waitForEnd(ctx, g, c, awaited{id: id, limit: atMost, start: startExec})
	if err != nil {
		return err
	}
	if g.JSON {
		err = g.WriteJSON(job)
	} else if job.Result != nil {
		err = view.Write(g.Out, string(job.Result)+"\n") // unchanged, for programs
	}
	if err == nil && job.Status != v1.StatusCompleted {
		err = &client.JobError{Job: job}
	}
	return err
}

// outcomeOf is a job's result, as it is, or why there is none, in a line.
func outcomeOf(job v1.Job) string {
	if job.Status != v1.StatusCompleted {
		return view.PlainLine(view.FirstLine(view.PlainOrSealed(job.LastError)))
	}
	return string(job.Result)
}
