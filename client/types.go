package client

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// NewJob is a job to enqueue. The zero value is a job without type and
// payload, to run at once.
type NewJob struct {
	// ID names the job. "" takes a fresh UUIDv7. Enqueueing the same job under
	// the same id again changes nothing.
	ID       string
	Type     string
	Payload  jsontext.Value // JSON; nil: none
	Priority int32          // higher first
	// RunAt, or Delay from now on the server's clock, keeps the job back. Not
	// both.
	RunAt time.Time
	Delay time.Duration
	// MaxAttempts is how often the job may be claimed; nil takes the server's
	// default.
	MaxAttempts *int32
	// Lease is how long a claim lasts without heartbeat; 0 takes the worker's
	// wish, then the server's default.
	Lease time.Duration
}

// Enqueued is the answer to one enqueued job.
type Enqueued struct {
	JobID string
	LSN   string
	// Duplicate: the job was there already.
	Duplicate bool
}

// ClaimOptions say what a worker wants.
type ClaimOptions struct {
	Worker string
	Types  []string // empty: any type
	Max    int      // at most so many jobs; less than 1 is 1
	// Wait is how long the server may wait for the first job.
	Wait time.Duration
	// Lease is how long the claim lasts without heartbeat; 0 takes the job's
	// wish, then the server's default.
	Lease time.Duration
	// RequestID makes the repeated claim get the same jobs. "" takes a fresh
	// one; give one to repeat a claim whose outcome is unknown.
	RequestID string
}

// Lease names a claim of a job, for heartbeats and reports.
type Lease struct {
	JobID  string
	Worker string
	// Token is the fencing token of the claim. 0: the worker's name alone
	// decides whether the report is accepted, and it is not repeated when its
	// outcome is unknown.
	Token uint64
}

// ClaimedJob is a job that the caller holds.
type ClaimedJob struct {
	ID       string
	Type     string
	Payload  jsontext.Value // nil: none
	Priority int32
	Attempt  int           // counts from 1
	Token    uint64        // grows with every claim; hand it on to fence side effects
	Length   time.Duration // of the lease
	Worker   string
}

// Lease names the claim.
func (j ClaimedJob) Lease() Lease { return Lease{JobID: j.ID, Worker: j.Worker, Token: j.Token} }

// Failure is how an attempt failed.
type Failure struct {
	Error string
	// Permanent: do not try again, whatever attempts are left.
	Permanent bool
	// Delay keeps the job back before its next attempt.
	Delay time.Duration
}

// Beat is the answer to one lease of a heartbeat.
type Beat struct {
	JobID string
	// Tag is "" if the lease was renewed, else why not. LostLease tells
	// whether the job is lost.
	Tag string
}

// WorkerInfo is what a worker registers. From then on the cluster takes 30 s of
// silence for its death.
type WorkerInfo struct {
	Name    string
	Types   []string
	Version string
	Address string
}

// NewID returns an id for a job or a request: a UUIDv7, whose order in time
// keeps the indexes of the cluster compact.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New() // panics only if the system has no randomness at all
	}
	return id.String()
}
