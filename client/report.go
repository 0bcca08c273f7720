package client

import (
	"context"
	"encoding/json"

	v1 "osqueue/client/api/v1"
)

// Complete ends a claim with success and stores the result; nil means no result.
// Repeated, it succeeds again. If the lease is lost, IsLeaseLost(err) is true.
func (c *Client) Complete(ctx context.Context, l Lease, result json.RawMessage) error {
	return c.complete(ctx, v1.ActionComplete, l, &v1.Complete{WorkerID: optional(l.Worker), Token: l.Token}, result)
}

// ForceComplete completes a job in any status, without regard to its lease. Use it
// for repairs by hand. A worker uses Complete, which reports a lost lease. If the
// job is completed already, its result is replaced.
func (c *Client) ForceComplete(ctx context.Context, jobID string, result json.RawMessage) error {
	return c.complete(ctx, v1.ActionForceComplete, Lease{JobID: jobID}, v1.ForceComplete{}, result)
}

func (c *Client) complete(ctx context.Context, action string, l Lease, in any, result json.RawMessage) error {
	result, err := c.sealResult(ctx, l.JobID, result)
	if err != nil {
		return unsent(action, err)
	}
	body, err := encodeWith(in, "result", result)
	if err != nil {
		return local(action, err)
	}
	return c.report(ctx, l, call{action: action, body: body})
}

// Fail ends a claim with a failure. The cluster retries the job or marks it dead.
// Repeated, Fail succeeds again.
func (c *Client) Fail(ctx context.Context, l Lease, f Failure) error {
	text, err := c.sealError(ctx, l.JobID, f)
	if err != nil {
		return unsent(v1.ActionFail, err)
	}
	return c.report(ctx, l, call{action: v1.ActionFail, in: &v1.Fail{
		WorkerID: optional(l.Worker), Token: l.Token, Error: text, Retryable: f.retryable(), DelayMs: f.delayMs(),
	}})
}

// Release returns a job to the queue; the claim does not count as an attempt.
// Repeated, it succeeds again.
func (c *Client) Release(ctx context.Context, l Lease) error {
	return c.report(ctx, l, call{action: v1.ActionRelease, in: &v1.Release{WorkerID: optional(l.Worker), Token: l.Token}})
}

// report sends a report on one job. A server answers 204 without a token, and a
// v1.Reported with one, which is ignored.
func (c *Client) report(ctx context.Context, l Lease, k call) error {
	k.op, k.prefix, k.name, k.safe = k.action, v1.PathJobs, l.JobID, l.Token != 0
	_, err := sendWrite[v1.Reported](ctx, c.caller, k)
	return err
}
