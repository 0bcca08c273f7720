package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	v1 "osqueue/client/api/v1"
)

// Complete ends a claim with success and stores the result; nil means no result.
// Repeated, it succeeds again. If the lease is lost, IsLeaseLost(err) is true.
func (c *Client) Complete(ctx context.Context, l Lease, result json.RawMessage) error {
	result, err := c.sealResult(ctx, l.JobID, result)
	if err != nil {
		return unsent(v1.ActionComplete, err)
	}
	body, err := encodeWith(&v1.Complete{WorkerID: optional(l.Worker), Token: l.Token}, "result", result)
	return c.report(ctx, v1.ActionComplete, l, body, err)
}

// ForceComplete completes a job in any status, without regard to its lease. Use it
// for repairs by hand. A worker uses Complete, which reports a lost lease. If the
// job is completed already, its result is replaced.
func (c *Client) ForceComplete(ctx context.Context, jobID string, result json.RawMessage) error {
	result, err := c.sealResult(ctx, jobID, result)
	if err != nil {
		return unsent(v1.ActionForceComplete, err)
	}
	body, err := encodeWith(v1.ForceComplete{}, "result", result)
	return c.report(ctx, v1.ActionForceComplete, Lease{JobID: jobID}, body, err)
}

// Fail ends a claim with a failure. The cluster retries the job or marks it dead.
// Repeated, Fail succeeds again.
func (c *Client) Fail(ctx context.Context, l Lease, f Failure) error {
	text, err := c.sealError(ctx, l.JobID, f)
	if err != nil {
		return unsent(v1.ActionFail, err)
	}
	body, err := encode(v1.Fail{
		WorkerID: optional(l.Worker), Token: l.Token, Error: text, Retryable: f.retryable(), DelayMs: f.delayMs(),
	})
	return c.report(ctx, v1.ActionFail, l, body, err)
}

// Release returns a job to the queue; the claim does not count as an attempt.
// Repeated, it succeeds again.
func (c *Client) Release(ctx context.Context, l Lease) error {
	body, err := encode(v1.Release{WorkerID: optional(l.Worker), Token: l.Token})
	return c.report(ctx, v1.ActionRelease, l, body, err)
}

// Renew extends one lease. For several leases use Heartbeat: it needs one request,
// and also reports requested cancellations.
func (c *Client) Renew(ctx context.Context, l Lease) error {
	body, err := encode(v1.Heartbeat{WorkerID: optional(l.Worker), Token: l.Token, Progress: c.sealProgress(ctx, l)})
	return c.report(ctx, v1.ActionHeartbeat, l, body, err)
}

// Progress extends one lease and records the progress of the job. The Beat reports
// whether someone asked to cancel the job; it is empty if l has no token.
func (c *Client) Progress(ctx context.Context, l Lease, p Progress) (Beat, error) {
	const op = "progress"
	if p.Percent < 0 || p.Percent > 100 {
		return Beat{}, local(op, fmt.Errorf("progress of %d percent: %w", p.Percent, errPercent))
	}
	l.Progress = &p
	body, err := encode(v1.Heartbeat{WorkerID: optional(l.Worker), Token: l.Token, Progress: c.sealProgress(ctx, l)})
	if err != nil {
		return Beat{}, local(op, err)
	}
	path, err := namePath(v1.PathJobs, l.JobID, v1.ActionProgress)
	if err != nil {
		return Beat{}, local(op, err)
	}
	out, err := sendMaybe[v1.Reported](ctx, c.caller, call{op: op, method: http.MethodPost, path: path, body: body, write: true, passing: true})
	return Beat{JobID: l.JobID, Cancel: out.Cancel}, err
}

var errPercent = errors.New("must be from 0 to 100")

// report sends a report on one job. A server answers 204 without a token, and a
// v1.Reported with one, which is ignored.
func (c *Client) report(ctx context.Context, action string, l Lease, body []byte, err error) error {
	if err != nil {
		return local(action, err)
	}
	path, err := namePath(v1.PathJobs, l.JobID, action)
	if err != nil {
		return local(action, err)
	}
	k := call{op: action, method: http.MethodPost, path: path, body: body, write: true, passing: action == v1.ActionHeartbeat}
	if l.Token == 0 && action != v1.ActionHeartbeat {
		k.key = ownKey(ctx)
	}
	return c.do(ctx, k, acknowledged[v1.Reported])
}

// acknowledged accepts an empty body or JSON of type T, and ignores its content.
// Any other body does not come from a node.
func acknowledged[T any](body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return decode(body, new(T))
}
