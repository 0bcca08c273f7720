package client

import (
	"context"
	"time"

	v1 "osqueue/client/api/v1"
)

// Claim leases up to o.Max jobs to o.Worker. If no job is available within o.Wait,
// it returns no jobs and no error.
func (c *Client) Claim(ctx context.Context, o ClaimOptions) ([]ClaimedJob, error) {
	n := int32(min(max(o.Max, 1), 1<<30))
	if o.RequestID == "" && o.Worker != "" {
		o.RequestID = NewID()
	}
	in := &v1.Claim{
		WorkerID:  optional(o.Worker),
		Types:     o.Types,
		Max:       &n,
		WaitMs:    inMilliseconds(o.Wait),
		LeaseMs:   inMilliseconds(o.Lease),
		RequestID: o.RequestID,
		Instance:  o.Instance,
		Confirms:  o.Confirms,
	}
	out, err := send[v1.Claimed](ctx, c.caller, call{
		op: "claim", path: v1.PathClaim, in: in,
		write: true, leases: true, passing: true, once: o.Worker == "", wait: min(max(o.Wait, 0), endless),
	})
	if err != nil {
		return nil, err
	}
	return c.claimed(ctx, out.Jobs, o.Worker), nil
}

// cronTime converts the time of a schedule from milliseconds; 0 is the zero time.
func cronTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func claimedJob(j v1.ClaimedJob, worker string) ClaimedJob {
	job := ClaimedJob{
		ID:       j.JobID,
		Type:     j.Type,
		Payload:  j.Payload,
		Priority: j.Priority,
		Attempt:  int(j.Attempts),
		Token:    j.Token,
		Length:   milliseconds(j.LeaseMs),
		Age:      milliseconds(max(j.LeaseAgeMs, 0)),
		Worker:   worker,

		Confirm:   j.Confirm,
		CreatedAt: time.UnixMilli(j.CreatedAt),
		Timeout:   milliseconds(j.TimeoutMs),
		Group:     j.Group,
		Tags:      j.Tags,
		Headers:   j.Headers,
		Limits:    j.Limits,
		BatchID:   j.BatchID,
		Cron:      j.Cron,
		CronAt:    cronTime(j.CronAt),
		LastError: j.LastError,
		Step:      j.Step,
		Parents:   j.Parents,
		Steps:     j.Steps,
		Signals:   j.Signals,
	}
	if j.MaxAttempts != nil {
		job.MaxAttempts = int(*j.MaxAttempts)
	}
	return job
}
