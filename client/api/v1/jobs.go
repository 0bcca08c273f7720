package v1

import "encoding/json"

// NewJob is a job to enqueue: POST /v1/jobs.
type NewJob struct {
	// ID is made by the client, or by the server if absent: 1 to 128 visible
	// ASCII characters. Sending the same job with the same id again is harmless; the
	// answer is that to the first.
	ID string `json:"id,omitzero"`
	// Type is also the name of the job's queue.
	Type    string          `json:"type,omitzero"`
	Payload json.RawMessage `json:"payload,omitzero"` // any JSON, kept byte for byte
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
	// Backoff says how long the job waits after a failed attempt; absent takes
	// its type's.
	Backoff *Backoff `json:"backoff,omitzero"`
	// TimeoutMs is how long an attempt may run, whatever its heartbeats; absent
	// takes the type's.
	TimeoutMs int64 `json:"timeoutMs,omitzero"`
	// Group is the tenant, or whatever claims shall rotate over.
	Group string   `json:"group,omitzero"`
	Tags  []string `json:"tags,omitzero"`
	// UniqueKey is a key that only one job of the type holds at a time: while
	// one does, a new one is not added, and the answer names the holder.
	UniqueKey string `json:"uniqueKey,omitzero"`
	// UniqueScope is how long the job holds its key: "waiting" until it is
	// claimed, "active" (default) until it has ended, "period" for UniqueMs.
	UniqueScope string `json:"uniqueScope,omitzero"`
	UniqueMs    int64  `json:"uniqueMs,omitzero"`
	// After are ids of the jobs that must complete before this one can be
	// claimed; they exist, or are in the same batch.
	After []string `json:"after,omitzero"`
	// AfterFailure is the policy if one of them dies or is cancelled: "block"
	// (default: keep waiting, because a retry may complete it), "cancel" this job
	// too, or "run" it.
	AfterFailure string `json:"afterFailure,omitzero"`
	// BatchID adds the job to an open batch.
	BatchID string `json:"batchId,omitzero"`
	// Headers go to the worker with the job, in every attempt: names of a-z, 0-9, "-", "_"
	// and "." with values, such as traceparent.
	Headers map[string]string `json:"headers,omitzero"`
}

// Backoff says how long a job waits after its n-th attempt failed: kind "none"
// not at all, "fixed" BaseMs, "linear" BaseMs·n, "exponential" BaseMs·2^(n-1);
// at most CapMs (absent: no cap), and lowered by up to Jitter percent at random.
type Backoff struct {
	Kind   string `json:"kind"`
	BaseMs int64  `json:"baseMs,omitzero"`
	CapMs  int64  `json:"capMs,omitzero"`
	Jitter int64  `json:"jitter,omitzero"`
}

// The kinds of Backoff.
const (
	BackoffNone        = "none"
	BackoffFixed       = "fixed"
	BackoffLinear      = "linear"
	BackoffExponential = "exponential"
)

// The values of NewJob.UniqueScope and of NewJob.AfterFailure.
const (
	UniqueWaiting = "waiting"
	UniqueActive  = "active"
	UniquePeriod  = "period"

	AfterBlock  = "block"
	AfterCancel = "cancel"
	AfterRun    = "run"
)

// Enqueued is the answer to a NewJob.
type Enqueued struct {
	// JobID is the job's, or the one of the job that holds the unique key.
	JobID string `json:"jobId"`
	LSN   string `json:"lsn"`
	// Duplicate: the job was there already, or another holds its unique key.
	Duplicate bool `json:"duplicate,omitzero"`
}

// Batch enqueues all of its jobs or none: POST /v1/jobs/batch.
type Batch struct {
	Jobs []NewJob `json:"jobs"`
}

// NewBatch makes a batch of jobs that is watched until all have ended: POST
// /v1/batches. All is done or nothing.
type NewBatch struct {
	// ID is made by the client, or by the server if absent.
	ID string `json:"id,omitzero"`
	// Jobs belong to the batch. More can be added, by their BatchID, as long as
	// not all have ended; a batch without jobs waits for them.
	Jobs []NewJob `json:"jobs,omitzero"`
	// Callback is enqueued once when all jobs have ended.
	Callback *NewJob `json:"callback,omitzero"`
	// CallbackOn: "ended" (default) or "completed", only when all of them
	// completed.
	CallbackOn string `json:"callbackOn,omitzero"`
}

// The values of NewBatch.CallbackOn.
const (
	CallbackEnded     = "ended"
	CallbackCompleted = "completed"
)

// BatchCreated is the answer to a NewBatch.
type BatchCreated struct {
	BatchID string `json:"batchId"`
	// CallbackID is the id that the callback job will have. The repeated answer
	// for a batch that is not kept any more lacks it.
	CallbackID string   `json:"callbackId,omitzero"`
	JobIDs     []string `json:"jobIds"`
	LSN        string   `json:"lsn"`
	Duplicates []string `json:"duplicates,omitzero"`
}

// BatchInfo is a batch: GET /v1/batches/{id}.
type BatchInfo struct {
	ID         string `json:"id"`
	CreatedAt  int64  `json:"createdAt"`
	EndedAt    int64  `json:"endedAt,omitzero"` // absent: it is open
	Total      uint64 `json:"total"`
	Pending    uint64 `json:"pending"`
	Completed  uint64 `json:"completed"`
	Dead       uint64 `json:"dead"`
	Cancelled  uint64 `json:"cancelled"`
	CallbackID string `json:"callbackId,omitzero"`
	CallbackOn string `json:"callbackOn,omitzero"`
	// Called: the callback's time has come.
	Called bool `json:"called,omitzero"`
}

// BatchList is the answer to GET /v1/batches, by id.
type BatchList struct {
	Batches    []BatchInfo `json:"batches"`
	NextCursor string      `json:"nextCursor,omitzero"`
	LSN        string      `json:"lsn"`
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
	StatusBlocked    = "blocked"     // waits for other jobs
)

// StatusAll stands for all of them in the query of a list.
const StatusAll = "all"

// Job is a job as GET /v1/jobs and GET /v1/jobs/{id} show it. The members
// without omitzero are always there.
type Job struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload,omitzero"`
	Type    string          `json:"type,omitzero"`
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
	LeaseMs   int64           `json:"leaseMs,omitzero"`
	Token     uint64          `json:"token,omitzero"` // of the last claim
	Result    json.RawMessage `json:"result,omitzero"`
	LastError string          `json:"lastError,omitzero"`
	// Log is what the attempt that completed the job had to say beside its result.
	Log string `json:"log,omitzero"`

	Backoff      *Backoff          `json:"backoff,omitzero"`
	TimeoutMs    int64             `json:"timeoutMs,omitzero"` // of the attempt that runs, or else the producer's wish
	Group        string            `json:"group,omitzero"`
	Tags         []string          `json:"tags,omitzero"`
	Headers      map[string]string `json:"headers,omitzero"`
	UniqueKey    string            `json:"uniqueKey,omitzero"`
	UniqueScope  string            `json:"uniqueScope,omitzero"`
	UniqueMs     int64             `json:"uniqueMs,omitzero"`
	After        []string          `json:"after,omitzero"`
	AfterFailure string            `json:"afterFailure,omitzero"`
	WaitsFor     []string          `json:"waitsFor,omitzero"` // what is left of After
	BatchID      string            `json:"batchId,omitzero"`
	Cron         string            `json:"cron,omitzero"` // the schedule that enqueued it
	// CronAt is the time of the schedule for which it was enqueued, which may have
	// passed by then. It is absent if the schedule was triggered by hand.
	CronAt int64 `json:"cronAt,omitzero"`
	// Progress is what the worker said last.
	Progress *Progress `json:"progress,omitzero"`
	// ProgressHistory is what the last attempts have reported, oldest first. It is only in
	// the answer to GET /v1/jobs/{id}: the asked node has what it has applied since its
	// start. Of many reports of an attempt, some are left out evenly.
	ProgressHistory []ProgressPoint `json:"progressHistory,omitzero"`
	// Actions are the requests that enqueued, cancelled and retried the job, oldest first. They
	// are only in the answer to GET /v1/jobs/{id}: the asked node has the last ones that it has
	// applied since its start.
	Actions []JobAction `json:"actions,omitzero"`
	// History are the last attempts that ended badly, oldest first.
	History []Attempt `json:"history,omitzero"`
	// CancelAt is when the cancellation of the running job was requested.
	CancelAt int64 `json:"cancelAt,omitzero"`
	// Waited is false in the answer to a read with waitMs that ended before
	// the job did; absent otherwise.
	Waited *bool `json:"waited,omitzero"`
}

// Progress is how far a job has come: percent from 0 to 100, and a message for
// people.
type Progress struct {
	Percent uint8  `json:"percent"`
	Message string `json:"message,omitzero"`
	At      int64  `json:"at,omitzero"` // in answers
}

// ProgressPoint is one report of progress.
type ProgressPoint struct {
	Attempt int32  `json:"attempt"`
	Percent uint8  `json:"percent"`
	Message string `json:"message,omitzero"`
	At      int64  `json:"at"` // the queue's clock, ms
}

// JobAction is a change of a job by a request of a client that is not its worker.
type JobAction struct {
	Kind  string `json:"kind"`           // as of Event, such as EventRetried
	At    int64  `json:"at"`             // the queue's clock, ms
	Actor string `json:"actor,omitzero"` // as in Event
}

// Attempt is one that ended badly.
type Attempt struct {
	Number    int32   `json:"number"`
	StartedAt int64   `json:"startedAt"`
	EndedAt   int64   `json:"endedAt"`
	WorkerID  *string `json:"workerId,omitzero"`
	Error     string  `json:"error,omitzero"`
	// End is "failed", "lease_expired" or "timed_out".
	End string `json:"end"`
}

// JobList is the answer to GET /v1/jobs: the figures of the whole queue (for a token that is
// limited to types, of the listed type) and a page of its jobs, first in first out.
type JobList struct {
	Stats
	Jobs []Job `json:"jobs"`
	// NextCursor gets the next page. A page may be short, or empty, and still
	// have a next one; the list ends where NextCursor is absent.
	NextCursor string `json:"nextCursor,omitzero"`
}

// JobCount is the number of jobs that a list has: GET /v1/stats/jobs, with the parameters
// of the list. If NextCursor is present, Count has the jobs up to there only; add the
// counts that follow.
type JobCount struct {
	Count      uint64 `json:"count"`
	NextCursor string `json:"nextCursor,omitzero"`
	LSN        string `json:"lsn"`
}
