package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/envelope"
)

// Complete ends a claim with success and stores the result; nil means no result.
// Repeated, it succeeds again. If the lease is lost, IsLeaseLost(err) is true.
func (c *Client) Complete(ctx context.Context, l Lease, result json.RawMessage) error {
	result, err := c.sealedResult(ctx, v1.ActionComplete, l.JobID, result)
	if err != nil {
		return err
	}
	return c.report(ctx, l, call{action: v1.ActionComplete, in: &v1.Complete{WorkerID: optional(l.Worker), Token: l.Token, Result: result}})
}

// ForceComplete completes a job in any status, without regard to its lease. Use it
// for repairs by hand. A worker uses Complete, which reports a lost lease. If the
// job is completed already, its result is replaced.
func (c *Client) ForceComplete(ctx context.Context, jobID string, result json.RawMessage) error {
	const op = v1.ActionForceComplete
	result, err := c.sealedResult(ctx, op, jobID, result)
	if err != nil {
		return err
	}
	body, err := encodeWith(v1.ForceComplete{}, "result", result)
	if err != nil {
		return local(op, err)
	}
	return c.report(ctx, Lease{JobID: jobID}, call{action: op, body: body})
}

// sealedResult returns the result of a job as it is sent by an operation.
func (c *Client) sealedResult(ctx context.Context, op, id string, result json.RawMessage) (json.RawMessage, error) {
	sealed, err := c.sealResult(ctx, id, result)
	if err != nil {
		return nil, unsent(op, err)
	}
	if err := checkRaw("result", sealed); err != nil {
		return nil, local(op, err)
	}
	return sealed, nil
}

// Fail ends a claim with a failure. The cluster retries the job or marks it dead.
// Repeated, Fail succeeds again.
func (c *Client) Fail(ctx context.Context, l Lease, f Failure) error {
	text, err := c.sealError(ctx, l.JobID, f)
	if err != nil {
		return unsent(v1.ActionFail, err)
	}
	return c.report(ctx, l, call{action: v1.ActionFail, in: &v1.Fail{
		WorkerID: optional(l.Worker), Token: l.Token, Error: text, Class: f.Class, Retryable: f.retryable(), DelayMs: f.delayMs(),
	}})
}

// Release returns a job to the queue, at once or after l.Delay; the claim does not count as an attempt.
// Repeated, it succeeds again.
func (c *Client) Release(ctx context.Context, l Lease) error {
	return c.report(ctx, l, call{action: v1.ActionRelease, in: &v1.Release{
		WorkerID: optional(l.Worker), Token: l.Token, DelayMs: l.Delay.Milliseconds(),
	}})
}

// report sends a report on one job. A server answers 204 without a token, and a
// v1.Reported with one, which is ignored.
func (c *Client) report(ctx context.Context, l Lease, k call) error {
	k.op, k.prefix, k.name, k.safe = k.action, v1.PathJobs, l.JobID, l.Token != 0
	_, err := sendWrite[v1.Reported](ctx, c.caller, k)
	return err
}

// Heartbeat extends the leases of one worker and sends the progress in them. The
// results are in the order of leases. A lease that is lost has a Beat.Tag and is
// not an error.
func (c *Client) Heartbeat(ctx context.Context, worker string, leases []Lease) ([]Beat, error) {
	const op = "heartbeat"
	if len(leases) == 0 {
		return nil, nil
	}
	in := v1.HeartbeatBatch{WorkerID: optional(worker)}
	in.Jobs, _ = inWire(leases, func(l Lease) (v1.Lease, error) { // a progress never fails a heartbeat
		return v1.Lease{JobID: l.JobID, Token: l.Token, Progress: c.sealProgress(ctx, l)}, nil
	})
	k := call{op: op, path: v1.PathHeartbeat, write: true, passing: true}
	return c.reportMany(ctx, k, &in, len(leases))
}

// Completion is one job of CompleteBatch.
type Completion struct {
	Lease  Lease
	Result json.RawMessage // nil: no result
	Log    string          // the log of the attempt: UTF-8, at most 16 KiB
}

// CompleteBatch completes jobs of one worker, each independently of the others. The
// results are in the order of jobs. A refusal is in Beat.Tag and is not an error.
func (c *Client) CompleteBatch(ctx context.Context, worker string, jobs []Completion) ([]Beat, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	out, err := c.completeBatch(ctx, worker, jobs, nil)
	return beatsOf(out), err
}

// CompleteAndClaim is CompleteBatch with the next claim of the worker: both are one call
// and one log entry, so that a worker needs half the calls. The claim does not wait.
// If it returns an error with an unknown outcome, Claim with the same RequestID returns the
// claimed jobs.
func (c *Client) CompleteAndClaim(ctx context.Context, jobs []Completion, next ClaimOptions) ([]Beat, []ClaimedJob, error) {
	const op = "complete and claim"
	if len(jobs) == 0 || next.Worker == "" {
		return nil, nil, local(op, errNoWorker)
	}
	n := int32(min(max(next.Max, 1), 1<<30))
	if next.RequestID == "" {
		next.RequestID = NewID()
	}
	out, err := c.completeBatch(ctx, next.Worker, jobs, &v1.NextClaim{
		RequestID: next.RequestID, Types: next.Types, Max: &n, LeaseMs: inMilliseconds(next.Lease),
		Instance: next.Instance, Confirms: next.Confirms,
	})
	if err != nil {
		return nil, nil, err
	}
	return beatsOf(out), c.claimed(ctx, out.Claimed, next.Worker), nil
}

var errNoWorker = errors.New("no job or no worker is given: give jobs, and ClaimOptions.Worker")

func (c *Client) completeBatch(ctx context.Context, worker string, jobs []Completion, next *v1.NextClaim) (_ v1.ReportedBatch, err error) {
	in := v1.CompleteBatch{WorkerID: optional(worker), Claim: next}
	k := call{op: "complete batch", path: v1.PathComplete, write: true, leases: next != nil}
	in.Jobs, err = inWire(jobs, func(j Completion) (out v1.CompleteLease, err error) {
		out = v1.CompleteLease{JobID: j.Lease.JobID, Token: j.Lease.Token}
		if out.Result, err = c.sealResult(ctx, out.JobID, j.Result); err != nil {
			return out, err
		}
		out.Log, err = c.sealText(ctx, envelope.KindLog, out.JobID, j.Log, maxLogText)
		return out, err
	})
	if err != nil {
		return v1.ReportedBatch{}, unsent(k.op, err)
	}
	for i := range in.Jobs {
		if err := checkRaw("result", in.Jobs[i].Result); err != nil {
			return v1.ReportedBatch{}, local(k.op, err)
		}
	}
	if slices.ContainsFunc(jobs, func(j Completion) bool { return j.Lease.Token == 0 }) {
		k.key = ownKey(ctx)
	}
	return c.reportAll(ctx, k, &in, len(jobs))
}

// FailedJob is one job of FailBatch.
type FailedJob struct {
	Lease   Lease
	Failure Failure
}

// FailBatch reports failures of jobs of one worker, each independently of the
// others. The results are in the order of jobs. A refusal is in Beat.Tag and is not
// an error.
func (c *Client) FailBatch(ctx context.Context, worker string, jobs []FailedJob) (_ []Beat, err error) {
	const op = "fail batch"
	if len(jobs) == 0 {
		return nil, nil
	}
	in := v1.FailBatch{WorkerID: optional(worker)}
	k := call{op: op, path: v1.PathFail, write: true}
	in.Jobs, err = inWire(jobs, func(j FailedJob) (v1.FailLease, error) {
		text, err := c.sealError(ctx, j.Lease.JobID, j.Failure)
		return v1.FailLease{
			JobID: j.Lease.JobID, Token: j.Lease.Token,
			Error: text, Class: j.Failure.Class, Retryable: j.Failure.retryable(), DelayMs: j.Failure.delayMs(),
		}, err
	})
	if err != nil {
		return nil, unsent(op, err)
	}
	if slices.ContainsFunc(jobs, func(j FailedJob) bool { return j.Lease.Token == 0 }) {
		k.key = ownKey(ctx)
	}
	return c.reportMany(ctx, k, &in, len(jobs))
}

// ReleaseBatch releases jobs of one worker, each independently of the others. The
// results are in the order of leases. A refusal is in Beat.Tag and is not an error.
func (c *Client) ReleaseBatch(ctx context.Context, worker string, leases []Lease) ([]Beat, error) {
	const op = "release batch"
	if len(leases) == 0 {
		return nil, nil
	}
	in := v1.ReleaseBatch{WorkerID: optional(worker), Jobs: make([]v1.ReleaseLease, len(leases))}
	k := call{op: op, path: v1.PathRelease, write: true}
	for i, l := range leases {
		in.Jobs[i] = v1.ReleaseLease{JobID: l.JobID, Token: l.Token, DelayMs: l.Delay.Milliseconds()}
	}
	if slices.ContainsFunc(leases, func(l Lease) bool { return l.Token == 0 }) {
		k.key = ownKey(ctx)
	}
	return c.reportMany(ctx, k, &in, len(leases))
}

// inWire returns the wire forms of reports, whose texts it encrypts in parallel.
func inWire[J, W any](jobs []J, wire func(J) (W, error)) ([]W, error) {
	out := make([]W, len(jobs))
	return out, inParallel(len(jobs), func(i int) (err error) {
		out[i], err = wire(jobs[i])
		return err
	})
}

// reportMany sends the body in, which has n reports, with the call k.
func (c *Client) reportMany(ctx context.Context, k call, in any, n int) ([]Beat, error) {
	out, err := c.reportAll(ctx, k, in, n)
	return beatsOf(out), err
}

// reportAll is reportMany with the whole answer.
func (c *Client) reportAll(ctx context.Context, k call, in any, n int) (out v1.ReportedBatch, err error) {
	if n > MaxBatchJobs {
		return out, local(k.op, fmt.Errorf("%d jobs are more than the %d of one call; send several", n, MaxBatchJobs))
	}
	k.in = in
	err = c.do(ctx, k, func(body answer) error {
		out = v1.ReportedBatch{}
		if err := body.decode(&out); err != nil {
			return err
		}
		if len(out.Results) != n {
			return fmt.Errorf("the server returned %d results for %d reports", len(out.Results), n)
		}
		return nil
	})
	if err != nil {
		return v1.ReportedBatch{}, err
	}
	return out, nil
}

// beatsOf returns the results of an answer; nil if there is none.
func beatsOf(out v1.ReportedBatch) []Beat {
	if len(out.Results) == 0 {
		return nil
	}
	beats := make([]Beat, len(out.Results))
	for i, r := range out.Results {
		beats[i] = Beat{JobID: r.JobID, Tag: refusalOf(r), Cancel: r.Cancel}
	}
	return beats
}

// refusalOf returns the tag of a refused item, or "" if it was accepted.
func refusalOf(r v1.ReportedItem) string {
	if r.Status == v1.ItemOK || r.Status == v1.ItemDuplicate {
		return ""
	}
	return r.Status
}
