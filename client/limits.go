package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
)

// Limits iterates over the limits by key, in the order of names: patterns with rules, and keys in use. An error is the last
// item of the sequence.
func (c *Admin) Limits(ctx context.Context) iter.Seq2[v1.LimitState, error] {
	return pages(ctx, c.caller, call{op: "list limits", path: v1.PathLimits}, func(p v1.LimitList) ([]v1.LimitState, string) { return p.Limits, p.NextCursor })
}

// Limit returns the rule in force for a key or pattern, and what is used of it.
func (c *Admin) Limit(ctx context.Context, name string) (v1.LimitState, error) {
	return sendRead[v1.LimitState](ctx, c.caller, call{op: "get limit", prefix: v1.PathLimits, name: name})
}

// SetLimit makes or replaces the rule of a pattern: a key, or a prefix of keys and "*".
func (c *Admin) SetLimit(ctx context.Context, pattern string, rule v1.LimitRule) error {
	return sendDone(ctx, c.caller, call{op: "set limit", method: http.MethodPut, prefix: v1.PathLimits, name: pattern, in: &rule})
}

// RemoveLimit removes the rule of a pattern.
func (c *Admin) RemoveLimit(ctx context.Context, pattern string) error {
	return sendDone(ctx, c.caller, call{op: "remove limit", method: http.MethodDelete, prefix: v1.PathLimits, name: pattern})
}

// HoldLimit lets no job start under a key for d, at most a day; 0 ends the hold.
func (c *Admin) HoldLimit(ctx context.Context, key string, d time.Duration) error {
	return sendDone(ctx, c.caller, call{op: "hold limit", prefix: v1.PathLimits, name: key, action: v1.ActionHold, in: &v1.HoldLimit{ForMs: new(inMilliseconds(d))}})
}

// Throttle lets no job start for d, at most a day, under one of the limits of a job that the caller holds, such as that of
// an API that has answered 429. If the lease is lost, IsLeaseLost(err) is true.
func (c *Client) Throttle(ctx context.Context, l Lease, key string, d time.Duration) error {
	return sendDone(ctx, c.caller, call{op: v1.ActionThrottle, prefix: v1.PathJobs, name: l.JobID, action: v1.ActionThrottle, in: &v1.Throttle{
		WorkerID: optional(l.Worker), Token: l.Token, Limit: key, ForMs: inMilliseconds(d),
	}})
}
