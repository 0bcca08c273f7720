package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// ErrNotFinished is wrapped by the error of WaitJob when the time is over.
var ErrNotFinished = errors.New("the job has not finished in time")

// waitPoll is how long one request pauses the server to wait.
const waitPoll = 15 * time.Second

// JobError is the error of WaitJob for a job that is dead, cancelled or expired.
type JobError struct {
	Job v1.Job // dead, cancelled or expired
}

// Error returns how the job ended, and its last error.
func (e *JobError) Error() string {
	text := fmt.Sprintf("job %s is %s", e.Job.ID, e.Job.Status)
	if e.Job.LastError != "" {
		text += ": " + e.Job.LastError
	}
	return text
}

// WaitJob waits until the job has ended, at most for atMost (0: until ctx ends),
// and returns its last known state. If the job is dead, cancelled or expired, the error is a
// *JobError. If the time is over, the error wraps ErrNotFinished. If the job is completed
// and Config.Cipher cannot decrypt it, the error is a *SealError.
//
// The server holds every request until the job ends. After a failover the client
// sends the request to the new leader.
func (c *Client) WaitJob(ctx context.Context, id string, atMost time.Duration) (v1.Job, error) {
	if atMost > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, atMost, ErrNotFinished)
		defer cancel()
	}
	pauses := newPollPauses()
	var job v1.Job
	for {
		began := time.Now()
		now, err := c.pollJob(ctx, id, pollFor(ctx))
		switch {
		case err == nil:
			job = now
		case ctx.Err() == nil:
			return job, err
		}
		switch job.Status {
		case v1.StatusCompleted:
			err := c.openRead(ctx, &job)
			return job, err
		case v1.StatusDead, v1.StatusCancelled, v1.StatusExpired:
			_ = c.openRead(ctx, &job) // a text that cannot be read stays encrypted; the end is the error that counts
			return job, &JobError{Job: job}
		}
		if !sleep.For(ctx, pauses.NextBackOff()-time.Since(began)) {
			return job, fmt.Errorf("wait for job %s%s: %w", id, seenAs(job), context.Cause(ctx))
		}
	}
}

// WaitBatch waits until all jobs of a batch have ended, at most for atMost (0: until ctx ends), and returns it. If the time is
// over, the error wraps ErrNotFinished.
func (c *Client) WaitBatch(ctx context.Context, id string, atMost time.Duration) (v1.BatchInfo, error) {
	if atMost > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, atMost, ErrNotFinished)
		defer cancel()
	}
	for pauses := newPollPauses(); ; {
		b, err := c.Batch(ctx, id)
		if err == nil && b.EndedAt != 0 || err != nil && ctx.Err() == nil {
			return b, err
		}
		if !sleep.For(ctx, pauses.NextBackOff()) {
			return b, fmt.Errorf("wait for batch %s: %w", id, context.Cause(ctx))
		}
	}
}

// WaitLSN waits until the write with the given LSN has reached a level, or until
// ctx ends. AckObject means that the bucket contains the write. AckQuorum and
// AckDefault mean that the leader has applied it.
//
// If the cluster has lost all nodes and was restored from the bucket, the error has
// the tag v1.TagLSNGone. The write may then be lost: check for it, or send it
// again.
func (c *Client) WaitLSN(ctx context.Context, lsn string, level Ack) (v1.LSNReached, error) {
	return c.waitLSN(ctx, lsn, level)
}

func (c *caller) waitLSN(ctx context.Context, lsn string, level Ack) (v1.LSNReached, error) {
	const op = "wait for LSN"
	if _, _, ok := parseLSN(lsn); !ok {
		return v1.LSNReached{}, local(op, fmt.Errorf("%q is not an LSN; an LSN is written term-index", lsn))
	}
	if err := checkAck(level); err != nil {
		return v1.LSNReached{}, local(op, err)
	}
	if level == AckDefault {
		level = AckQuorum
	}
	pauses := newPollPauses()
	for {
		began := time.Now()
		out, err := c.pollLSN(ctx, lsn, level, pollFor(ctx))
		var late *Error
		if err == nil || !errors.As(err, &late) || late.Tag != v1.TagTimeout {
			return out, err
		}
		if !sleep.For(ctx, pauses.NextBackOff()-time.Since(began)) {
			late.Err = context.Cause(ctx)
			return out, late
		}
	}
}

// pollLSN sends one request. The error may have the tag v1.TagTimeout.
func (c *caller) pollLSN(ctx context.Context, lsn string, level Ack, wait time.Duration) (v1.LSNReached, error) {
	query := url.Values{
		v1.ParamLevel: {string(level)}, v1.ParamWaitMs: {strconv.FormatInt(inMilliseconds(wait), 10)},
	}
	return send[v1.LSNReached](ctx, c, call{
		op: "wait for LSN", path: v1.PathLSN + "/" + lsn + "/" + v1.ActionWait,
		query: query, wait: wait, patient: true,
	})
}

// newPollPauses returns the pauses that prevent a tight loop when a server answers
// at once although nothing has changed.
func newPollPauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.2, Multiplier: 1.5, MaxInterval: time.Second,
	}
}

// pollFor returns how long the next request may wait at the server. The wait ends
// shortly before ctx does, so that the last answer arrives.
func pollFor(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return waitPoll
	}
	return min(waitPoll, max(within(time.Until(end)), time.Millisecond))
}

// pollJob returns the job when it has ended, or its state after wait.
func (c *Client) pollJob(ctx context.Context, id string, wait time.Duration) (v1.Job, error) {
	k := c.read(ctx, call{op: "wait for job", prefix: v1.PathJobs, name: id})
	k.query.Set(v1.ParamWaitMs, strconv.FormatInt(inMilliseconds(wait), 10))
	k.wait = wait
	return send[v1.Job](ctx, c.caller, k)
}

// seenAs returns the last known status of a job as a clause, or "" if no answer
// came.
func seenAs(j v1.Job) string {
	if j.Status == "" {
		return ""
	}
	return ", which is " + v1.StatusWord(j.Status)
}
