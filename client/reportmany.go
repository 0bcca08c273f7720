package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	v1 "osqueue/client/api/v1"
)

// Heartbeat extends the leases of one worker and sends the progress in them. The
// results are in the order of leases. A lease that is lost has a Beat.Tag and is
// not an error.
func (c *Client) Heartbeat(ctx context.Context, worker string, leases []Lease) ([]Beat, error) {
	const op = "heartbeat"
	if len(leases) == 0 {
		return nil, nil
	}
	in := v1.HeartbeatBatch{WorkerID: optional(worker), Jobs: make([]v1.Lease, len(leases))}
	for i, l := range leases {
		in.Jobs[i] = v1.Lease{JobID: l.JobID, Token: l.Token, Progress: l.Progress.wire()}
	}
	k := call{op: op, method: http.MethodPost, path: v1.PathHeartbeat, write: true, passing: true}
	return c.reportMany(ctx, k, in, len(leases))
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
	const op = "complete batch"
	if len(jobs) == 0 {
		return nil, nil
	}
	in := v1.CompleteBatch{WorkerID: optional(worker), Jobs: make([]v1.CompleteLease, len(jobs))}
	k := call{op: op, method: http.MethodPost, path: v1.PathComplete, write: true}
	for i, j := range jobs {
		in.Jobs[i] = v1.CompleteLease{JobID: j.Lease.JobID, Token: j.Lease.Token, Result: j.Result, Log: j.Log}
	}
	if slices.ContainsFunc(jobs, func(j Completion) bool { return j.Lease.Token == 0 }) {
		k.key = ownKey(ctx)
	}
	return c.reportMany(ctx, k, in, len(jobs))
}

// FailedJob is one job of FailBatch.
type FailedJob struct {
	Lease   Lease
	Failure Failure
}

// FailBatch reports failures of jobs of one worker, each independently of the
// others. The results are in the order of jobs. A refusal is in Beat.Tag and is not
// an error.
func (c *Client) FailBatch(ctx context.Context, worker string, jobs []FailedJob) ([]Beat, error) {
	const op = "fail batch"
	if len(jobs) == 0 {
		return nil, nil
	}
	in := v1.FailBatch{WorkerID: optional(worker), Jobs: make([]v1.FailLease, len(jobs))}
	k := call{op: op, method: http.MethodPost, path: v1.PathFail, write: true}
	for i, j := range jobs {
		in.Jobs[i] = v1.FailLease{
			JobID: j.Lease.JobID, Token: j.Lease.Token,
			Error: j.Failure.Error, Retryable: j.Failure.retryable(), DelayMs: j.Failure.delayMs(),
		}
	}
	if slices.ContainsFunc(jobs, func(j FailedJob) bool { return j.Lease.Token == 0 }) {
		k.key = ownKey(ctx)
	}
	return c.reportMany(ctx, k, in, len(jobs))
}

// ReleaseBatch releases jobs of one worker, each independently of the others. The
// results are in the order of leases. A refusal is in Beat.Tag and is not an error.
func (c *Client) ReleaseBatch(ctx context.Context, worker string, leases []Lease) ([]Beat, error) {
	const op = "release batch"
	if len(leases) == 0 {
		return nil, nil
	}
	in := v1.ReleaseBatch{WorkerID: optional(worker), Jobs: make([]v1.Lease, len(leases))}
	k := call{op: op, method: http.MethodPost, path: v1.PathRelease, write: true}
	for i, l := range leases {
		in.Jobs[i] = v1.Lease{JobID: l.JobID, Token: l.Token}
	}
	if slices.ContainsFunc(leases, func(l Lease) bool { return l.Token == 0 }) {
		k.key = ownKey(ctx)
	}
	return c.reportMany(ctx, k, in, len(leases))
}

// reportMany sends the body in, which has n reports, with the call k.
func (c *Client) reportMany(ctx context.Context, k call, in any, n int) ([]Beat, error) {
	if n > MaxBatchJobs {
		return nil, local(k.op, fmt.Errorf("%d jobs are more than the %d of one call; send several", n, MaxBatchJobs))
	}
	body, err := encode(in)
	if err != nil {
		return nil, local(k.op, err)
	}
	k.body = body
	var out v1.ReportedBatch
	err = c.do(ctx, k, func(body []byte) error {
		out = v1.ReportedBatch{}
		if err := decode(body, &out); err != nil {
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
		beats[i] = Beat{JobID: r.JobID, Tag: refusalOf(r), Cancel: r.Cancel}
	}
	return beats, nil
}

// refusalOf returns the tag of a refused item, or "" if it was accepted.
func refusalOf(r v1.ReportedItem) string {
	if r.Status == v1.ItemOK || r.Status == v1.ItemDuplicate {
		return ""
	}
	return r.Status
}
