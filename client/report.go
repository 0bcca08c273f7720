package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/api/v1"
)

// Complete ends a claim well; a nil result is none. Repeated, it succeeds
// again.
func (c *Client) Complete(ctx context.Context, l Lease, result jsontext.Value) error {
	body, err := encodeWith(v1.Complete{WorkerID: optional(l.Worker), Token: l.Token}, "result", result)
	return c.report(ctx, v1.ActionComplete, l, body, err)
}

// Fail ends a claim badly. Repeated, it succeeds again.
func (c *Client) Fail(ctx context.Context, l Lease, f Failure) error {
	out := v1.Fail{WorkerID: optional(l.Worker), Token: l.Token, Error: f.Error, DelayMs: inMilliseconds(f.Delay)}
	if f.Permanent {
		out.Retryable = new(bool)
	}
	body, err := encode(out)
	return c.report(ctx, v1.ActionFail, l, body, err)
}

// Release gives a job back as if it had not been claimed. Repeated, it
// succeeds again.
func (c *Client) Release(ctx context.Context, l Lease) error {
	body, err := encode(v1.Release{WorkerID: optional(l.Worker), Token: l.Token})
	return c.report(ctx, v1.ActionRelease, l, body, err)
}

// Renew renews one lease. For several, Heartbeat is cheaper.
func (c *Client) Renew(ctx context.Context, l Lease) error {
	body, err := encode(v1.Heartbeat{WorkerID: optional(l.Worker), Token: l.Token})
	return c.report(ctx, v1.ActionHeartbeat, l, body, err)
}

// report is a report on one job. Without a token it is answered 204, with one
// by a v1.Reported, of which nothing is needed.
func (c *Client) report(ctx context.Context, action string, l Lease, body []byte, err error) error {
	if err != nil {
		return local(action, err)
	}
	path, err := jobPath(l.JobID, action)
	if err != nil {
		return local(action, err)
	}
	k := call{op: action, method: http.MethodPost, path: path, body: body, write: true}
	k.once = l.Token == 0 && action != v1.ActionHeartbeat
	return c.do(ctx, k, acknowledged[v1.Reported])
}

// acknowledged accepts an empty answer or one of that type, of which nothing
// is needed: anything else does not come from a node.
func acknowledged[T any](body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return json.Unmarshal(body, new(T))
}

// Heartbeat renews the leases of one worker. The answers are in their order; a
// lease that could not be renewed is not an error.
func (c *Client) Heartbeat(ctx context.Context, worker string, leases []Lease) ([]Beat, error) {
	const op = "heartbeat"
	if len(leases) == 0 {
		return nil, nil
	}
	in := v1.HeartbeatBatch{WorkerID: optional(worker), Jobs: make([]v1.Lease, len(leases))}
	for i, l := range leases {
		in.Jobs[i] = v1.Lease{JobID: l.JobID, Token: l.Token}
	}
	body, err := encode(in)
	if err != nil {
		return nil, local(op, err)
	}
	k := call{op: op, method: http.MethodPost, path: v1.PathHeartbeat, body: body, write: true}
	return c.reportMany(ctx, k, len(leases))
}

// Completion is one job of CompleteBatch.
type Completion struct {
	Lease  Lease
	Result jsontext.Value // nil: none
}

// CompleteBatch ends claims of one worker well. Each is decided for itself:
// the answers are in their order, and a refusal is not an error.
func (c *Client) CompleteBatch(ctx context.Context, worker string, jobs []Completion) ([]Beat, error) {
	const op = "complete batch"
	if len(jobs) == 0 {
		return nil, nil
	}
	in := v1.CompleteBatch{WorkerID: optional(worker), Jobs: make([]v1.CompleteLease, len(jobs))}
	k := call{op: op, method: http.MethodPost, path: v1.PathComplete, write: true}
	for i, j := range jobs {
		in.Jobs[i] = v1.CompleteLease{JobID: j.Lease.JobID, Token: j.Lease.Token, Result: j.Result}
		k.once = k.once || j.Lease.Token == 0
	}
	body, err := encode(in)
	if err != nil {
		return nil, local(op, err)
	}
	k.body = body
	return c.reportMany(ctx, k, len(jobs))
}

func (c *Client) reportMany(ctx context.Context, k call, n int) ([]Beat, error) {
	var out v1.ReportedBatch
	err := c.do(ctx, k, func(body []byte) error {
		out = v1.ReportedBatch{}
		if err := json.Unmarshal(body, &out); err != nil {
			return err
		}
		if len(out.Results) != n {
			return fmt.Errorf("%d results for %d reports", len(out.Results), n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	beats := make([]Beat, n)
	for i, r := range out.Results {
		beats[i] = Beat{JobID: r.JobID}
		if r.Status != v1.ItemOK && r.Status != v1.ItemDuplicate {
			beats[i].Tag = r.Status
		}
	}
	return beats, nil
}
