package v1

import "encoding/json"

// Claim asks for jobs: POST /v1/jobs/claim.
type Claim struct {
	// WorkerID is the caller's name. Absent is a worker of its own, not "".
	WorkerID *string `json:"workerId,omitzero"`
	// Types are what the worker can do; absent or empty is any.
	Types []string `json:"types,omitzero"`
	// Max is the most jobs to get, at least 1. Without it the answer is one
	// ClaimedJob, or an empty object if there is none; with it, Claimed.
	Max *int32 `json:"max,omitzero"`
	// WaitMs is how long to wait for the first job.
	WaitMs int64 `json:"waitMs,omitzero"`
	// LeaseMs is how long the claim lasts without heartbeat; absent takes each
	// job's own lease, then the server's default.
	LeaseMs int64 `json:"leaseMs,omitzero"`
	// RequestID makes the same claim, sent again within a minute, get the same
	// jobs. It needs a WorkerID.
	RequestID string `json:"requestId,omitzero"`
	// Instance names the worker's process among those of its name, as in WorkerInfo.
	Instance string `json:"instance,omitzero"`
	// Confirms promises that the worker sends a heartbeat for each job with Confirm before it
	// starts the job, and starts it only if the heartbeat is accepted. If the lease of such a
	// job ends without one, the attempt does not count, at most three times a job.
	Confirms bool `json:"confirms,omitzero"`
}

// Claimed is the answer to a Claim with Max. LSN is absent when there was
// nothing to claim, and so nothing was written.
type Claimed struct {
	Jobs []ClaimedJob `json:"jobs"`
	LSN  string       `json:"lsn,omitzero"`
}

// ClaimedJob is a job that the caller holds now.
type ClaimedJob struct {
	JobID       string          `json:"jobId"`
	Type        string          `json:"type,omitzero"`
	Payload     json.RawMessage `json:"payload,omitzero"`
	Priority    int32           `json:"priority,omitzero"`
	Attempts    int32           `json:"attempts"` // this one included
	MaxAttempts *int32          `json:"maxAttempts,omitzero"`
	// Token is the fencing token of this claim: greater than that of any claim
	// before. It goes into heartbeats and reports.
	Token   uint64 `json:"token"`
	LeaseMs int64  `json:"leaseMs"`
	// LeaseAgeMs is how much of the lease had passed when this was answered: a
	// claim that is repeated gets the lease that it got first.
	LeaseAgeMs int64 `json:"leaseAgeMs,omitzero"`
	// Confirm is true for the last attempt of a job whose claim has Confirms.
	Confirm   bool  `json:"confirm,omitzero"`
	CreatedAt int64 `json:"createdAt"`
	// TimeoutMs is how long the attempt may run, whatever its heartbeats.
	TimeoutMs int64             `json:"timeoutMs,omitzero"`
	Group     string            `json:"group,omitzero"`
	Tags      []string          `json:"tags,omitzero"`
	Headers   map[string]string `json:"headers,omitzero"` // as in NewJob
	BatchID   string            `json:"batchId,omitzero"`
	Cron      string            `json:"cron,omitzero"`
	CronAt    int64             `json:"cronAt,omitzero"`    // as in Job
	LastError string            `json:"lastError,omitzero"` // of the attempt before
	// LSN is there in the answer to a Claim without Max.
	LSN string `json:"lsn,omitzero"`
}
