package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	v1 "osqueue/api/v1"
)

// ErrNotFinished is wrapped by the error of WaitJob when its time is over.
var ErrNotFinished = errors.New("the job has not finished in time")

// waitPoll is how long one request of WaitJob lets the server wait.
const waitPoll = 15 * time.Second

// WaitJob waits until the job has finished, for up to atMost (0: as long as ctx
// lasts), and returns it as last seen. The server holds each request until the
// job ends; a failover in between is only another request.
func (c *Client) WaitJob(ctx context.Context, id string, atMost time.Duration) (v1.Job, error) {
	if atMost > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, atMost, ErrNotFinished)
		defer cancel()
	}
	// A server that answers at once, with a job that goes on, is not asked in a
	// tight loop.
	asks := &backoff.ExponentialBackOff{
		InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.2, Multiplier: 1.5, MaxInterval: time.Second,
	}
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
		if Finished(job.Status) {
			return job, nil
		}
		if !sleep(ctx, asks.NextBackOff()-time.Since(began)) {
			return job, fmt.Errorf("wait for job %s, last seen %s: %w", id, seenAs(job), context.Cause(ctx))
		}
	}
}

// pollFor is how long the next request may wait at the server. It ends a little
// before ctx does, so that the last answer arrives.
func pollFor(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return waitPoll
	}
	left := time.Until(end)
	return min(waitPoll, max(left-min(left/10, 500*time.Millisecond), time.Millisecond))
}

// pollJob returns the job when it has ended, or as it is after wait.
func (c *Client) pollJob(ctx context.Context, id string, wait time.Duration) (v1.Job, error) {
	const op = "wait for job"
	path, err := jobPath(id, "")
	if err != nil {
		return v1.Job{}, local(op, err)
	}
	k := c.read(op, path, nil)
	k.query.Set(v1.ParamWaitMs, strconv.FormatInt(inMilliseconds(wait), 10))
	k.wait = wait
	return send[v1.Job](ctx, c, k)
}

func seenAs(j v1.Job) string {
	if j.Status == "" {
		return "never"
	}
	return j.Status
}
