package v1

import "github.com/go-json-experiment/json/jsontext"

// NewJob is a job to enqueue: POST /v1/jobs.
type NewJob struct {
	// ID is made by the client, or by the server if absent: 1 to 128 visible
	// ASCII characters. Sending the same job with the same id again is harmless; the
	// answer is that to the first.
	ID string `json:"id,omitzero"`
	// Type is also the name of the job's queue.
	Type    string         `json:"type,omitzero"`
	Payload jsontext.Value `json:"payload,omitzero"` // any JSON, kept byte for byte
	// Priority: higher first; the default is 0.
	Priority int32 `json:"priority,omitzero"`
	// RunAt, or DelayMs from now, keeps the job back. Not both.
	RunAt   int64 `json:"runAt,omitzero"`
	DelayMs int64 `json:"delayMs,omitzero"`
	// MaxAttempts is how often the job may be claimed before a failure is
	// final; absent takes the server's default.
	MaxAttempts *int32 `json:"maxAttempts,omitzero"`
	// LeaseMs is how long a claim lasts without heartbeat; absent takes the
	// worker's wish, then the server's default.
	LeaseMs int64 `json:"leaseMs,omitzero"`
}

// Enqueued is the answer to a NewJob.
type Enqueued struct {
	JobID string `json:"jobId"`
	LSN   string `json:"lsn"`
	// Duplicate: the job was there already.
	Duplicate bool `json:"duplicate,omitzero"`
}

// Batch enqueues all of its jobs or none: POST /v1/jobs/batch.
type Batch struct {
	Jobs []NewJob `json:"jobs"`
}

// BatchEnqueued is the answer to a Batch, in its order.
type BatchEnqueued struct {
	JobIDs []string `json:"jobIds"`
	LSN    string   `json:"lsn"`
	// Duplicates are the ids of the jobs that were there already.
	Duplicates []string `json:"duplicates,omitzero"`
}

// The statuses of a job.
const (
	StatusScheduled  = "scheduled"   // not before its time
	StatusUnclaimed  = "unclaimed"   // waits for a worker
	StatusInProgress = "in_progress" // leased to a worker
	StatusCompleted  = "completed"   // ended well; kept for a time
	StatusDead       = "dead"        // out of attempts, or failed for good; kept
	StatusCancelled  = "cancelled"   // taken back by its producer
)

// StatusAll stands for all of them in the query of a list.
const StatusAll = "all"

// Job is a job as GET /v1/jobs and GET /v1/jobs/{id} show it. The members
// without omitzero are always there.
type Job struct {
	ID      string         `json:"id"`
	Status  string         `json:"status"`
	Payload jsontext.Value `json:"payload,omitzero"`
	Type    string         `json:"type,omitzero"`
	// WorkerID is who holds the job, or ended it; absent also if that worker
	// gave no name.
	WorkerID    *string `json:"workerId,omitzero"`
	CreatedAt   int64   `json:"createdAt"`
	Attempts    int32   `json:"attempts"`
	MaxAttempts int32   `json:"maxAttempts"` // 0 when unset
	Heartbeat   int64   `json:"heartbeat"`   // of the last claim or heartbeat; 0 when it waits for one
	Priority    int32   `json:"priority,omitzero"`
	RunAt       int64   `json:"runAt,omitzero"`
	ClaimedAt   int64   `json:"claimedAt,omitzero"`
	FinishedAt  int64   `json:"finishedAt,omitzero"`
	// LeaseMs is the length of the current lease, or else the producer's wish.
	LeaseMs   int64          `json:"leaseMs,omitzero"`
	Token     uint64         `json:"token,omitzero"` // of the last claim
	Result    jsontext.Value `json:"result,omitzero"`
	LastError string         `json:"lastError,omitzero"`
}

// JobList is the answer to GET /v1/jobs: the figures of the whole queue and a
// page of its jobs, first in first out.
type JobList struct {
	Stats
	Jobs []Job `json:"jobs"`
	// NextCursor gets the next page. A page may be short, or empty, and still
	// have a next one; the list ends where NextCursor is absent.
	NextCursor string `json:"nextCursor,omitzero"`
}
