package v1

import "encoding/json"

// Heartbeat renews the lease of a job: POST /v1/jobs/{id}/heartbeat. Without a
// token the worker's name decides, and the answer is 204 whether the worker
// holds the job or not. With one the answer is Reported, or a problem.
type Heartbeat struct {
	WorkerID *string   `json:"workerId,omitzero"`
	Token    uint64    `json:"token,omitzero"`
	Progress *Progress `json:"progress,omitzero"`
}

// Complete ends a job well: POST /v1/jobs/{id}/complete. Without a token it is
// answered like a Heartbeat without one.
type Complete struct {
	WorkerID *string         `json:"workerId,omitzero"`
	Token    uint64          `json:"token,omitzero"`
	Result   json.RawMessage `json:"result,omitzero"` // any JSON
	// Log is what the attempt had to say beside its result, at most 16 KiB.
	Log string `json:"log,omitzero"`
	// Claim is the worker's next claim.
	Claim *NextClaim `json:"claim,omitzero"`
}

// NextClaim asks for jobs together with a report, for the worker of the report: both are
// one log entry, the claim behind the report. It does not wait, and is carried out even if
// the report is refused.
type NextClaim struct {
	// RequestID is required. If the answer has no jobs because the report was refused or
	// the answer got lost, a Claim with the same id gets the same jobs.
	RequestID string   `json:"requestId"`
	Types     []string `json:"types,omitzero"`   // as in Claim
	Max       *int32   `json:"max,omitzero"`     // at least 1; absent is 1
	LeaseMs   int64    `json:"leaseMs,omitzero"` // as in Claim
	Instance  string   `json:"instance,omitzero"`
	Confirms  bool     `json:"confirms,omitzero"`
}

// ForceComplete completes a job in any status, without regard to its lease: POST
// /v1/jobs/{id}/force-complete. If the job is completed already, its result is
// replaced.
type ForceComplete struct {
	Result json.RawMessage `json:"result,omitzero"` // any JSON
}

// Fail ends an attempt: POST /v1/jobs/{id}/fail.
type Fail struct {
	WorkerID *string `json:"workerId,omitzero"`
	Token    uint64  `json:"token,omitzero"`
	Error    string  `json:"error,omitzero"` // for people
	// Retryable false makes the job dead whatever attempts are left; absent is
	// true.
	Retryable *bool `json:"retryable,omitzero"`
	// DelayMs is how long to wait before the next attempt; 0 is not at all,
	// absent is by the job's backoff.
	DelayMs *int64 `json:"delayMs,omitzero"`
	// Claim is the worker's next claim.
	Claim *NextClaim `json:"claim,omitzero"`
}

// Release gives a job back as if it had not been claimed: POST
// /v1/jobs/{id}/release.
type Release struct {
	WorkerID *string `json:"workerId,omitzero"`
	Token    uint64  `json:"token,omitzero"`
}

// Reported is the answer to a report on one job, and to its cancellation, retry
// or deletion. A deleted job's Status is the one that it had.
type Reported struct {
	LSN string `json:"lsn"`
	// Status is where the job stands now.
	Status string `json:"status,omitzero"`
	// Duplicate: this very report had been made before.
	Duplicate bool `json:"duplicate,omitzero"`
	// Cancel: the job's cancellation was requested; stop working on it and
	// report the end of the attempt.
	Cancel bool `json:"cancel,omitzero"`
	// Claimed are the jobs of the report's claim; absent if it had none.
	Claimed []ClaimedJob `json:"claimed,omitzero"`
}

// HeartbeatBatch renews leases of one worker: POST /v1/jobs/heartbeat.
type HeartbeatBatch struct {
	WorkerID *string `json:"workerId,omitzero"`
	Jobs     []Lease `json:"jobs"`
}

// Lease names a claim of a job. Without a token the worker's name decides.
type Lease struct {
	JobID    string    `json:"jobId"`
	Token    uint64    `json:"token,omitzero"`
	Progress *Progress `json:"progress,omitzero"` // of heartbeats
}

// FailBatch ends attempts of one worker: POST /v1/jobs/fail. Each job is decided
// for itself.
type FailBatch struct {
	WorkerID *string     `json:"workerId,omitzero"`
	Jobs     []FailLease `json:"jobs"`
	Claim    *NextClaim  `json:"claim,omitzero"` // the worker's next claim
}

// FailLease is one job of a FailBatch; its members are those of Fail.
type FailLease struct {
	JobID     string `json:"jobId"`
	Token     uint64 `json:"token,omitzero"`
	Error     string `json:"error,omitzero"`
	Retryable *bool  `json:"retryable,omitzero"`
	DelayMs   *int64 `json:"delayMs,omitzero"`
}

// ReleaseBatch gives jobs of one worker back: POST /v1/jobs/release.
type ReleaseBatch struct {
	WorkerID *string `json:"workerId,omitzero"`
	Jobs     []Lease `json:"jobs"`
}

// CompleteBatch ends jobs of one worker well: POST /v1/jobs/complete. Each job
// is decided for itself.
type CompleteBatch struct {
	WorkerID *string         `json:"workerId,omitzero"`
	Jobs     []CompleteLease `json:"jobs"`
	Claim    *NextClaim      `json:"claim,omitzero"` // the worker's next claim
}

// CompleteLease is one job of a CompleteBatch.
type CompleteLease struct {
	JobID  string          `json:"jobId"`
	Token  uint64          `json:"token,omitzero"`
	Result json.RawMessage `json:"result,omitzero"`
	Log    string          `json:"log,omitzero"` // as in Complete
}

// ReportedBatch is the answer to a batch of reports, in its order. It is 200
// also when reports were refused.
type ReportedBatch struct {
	Results []ReportedItem `json:"results"`
	LSN     string         `json:"lsn"`
	Claimed []ClaimedJob   `json:"claimed,omitzero"` // as in Reported
}

// ReportedItem is the result of one report.
type ReportedItem struct {
	JobID string `json:"jobId"`
	// Status is "ok", or "duplicate" if this very report had been made before;
	// anything else is a refusal, named like Problem.Tag.
	Status string `json:"status"`
	Cancel bool   `json:"cancel,omitzero"` // as in Reported
}

// The Status of a ReportedItem that was accepted.
const (
	ItemOK        = "ok"
	ItemDuplicate = "duplicate"
)
