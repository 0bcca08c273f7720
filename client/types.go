package client

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	v1 "osqueue/api/v1"
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
	// Backoff says how long the job waits after a failed attempt; nil takes its
	// type's.
	Backoff *Backoff
	// Timeout is how long an attempt may run, whatever its heartbeats; 0 takes
	// the type's.
	Timeout time.Duration
	// Group is the tenant, or whatever claims shall rotate over.
	Group string
	Tags  []string
	// Unique keeps a second job of the type with the same key out.
	Unique Unique
	// After are ids of the jobs that must complete before this one can be
	// claimed; they exist, or are in the same batch.
	After []string
	// AfterFailure is what happens if one of them dies or is cancelled:
	// v1.AfterBlock (also ""), v1.AfterCancel or v1.AfterRun.
	AfterFailure string
	// BatchID adds the job to an open batch.
	BatchID string
}

// Backoff says how long a job waits after its n-th attempt failed. It is the
// same as v1.Backoff, with durations.
type Backoff struct {
	Kind   string // v1.BackoffNone, BackoffFixed, BackoffLinear or BackoffExponential
	Base   time.Duration
	Cap    time.Duration // 0: no cap
	Jitter int           // percent by which the wait is lowered at random, at most
}

func (b *Backoff) wire() *v1.Backoff {
	if b == nil {
		return nil
	}
	return &v1.Backoff{
		Kind: b.Kind, BaseMs: inMilliseconds(b.Base), CapMs: inMilliseconds(b.Cap), Jitter: int64(b.Jitter),
	}
}

// Unique is a key that only one job of a type holds at a time. The zero value
// is none.
type Unique struct {
	Key string
	// Scope is how long the job holds its key: v1.UniqueWaiting until it is
	// claimed, v1.UniqueActive (also "") until it has ended, v1.UniquePeriod for
	// Period.
	Scope  string
	Period time.Duration
}

// Enqueued is the answer to one enqueued job.
type Enqueued struct {
	// JobID is the job's, or the one of the job that holds the unique key.
	JobID string
	LSN   string
	// Committed is how safe it is: AckQuorum or AckObject.
	Committed Ack
	// Duplicate: nothing was added. The job was there already, or another holds
	// its unique key.
	Duplicate bool
	// Holder is the job that holds the unique key, if it is another one; else "".
	Holder string
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
	// decides whether the report is accepted, also if it has claimed the job
	// again meanwhile.
	Token uint64
	// Progress is sent along with a heartbeat. Other reports ignore it.
	Progress *Progress
}

// Progress is how far a job has come.
type Progress struct {
	Percent int    // 0 to 100
	Message string // for people
}

func (p *Progress) wire() *v1.Progress {
	if p == nil {
		return nil
	}
	return &v1.Progress{Percent: uint8(min(max(p.Percent, 0), 100)), Message: p.Message}
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
	Age      time.Duration // of the lease, when the server answered: of a repeated claim it is older
	Worker   string

	MaxAttempts int // 0: the server did not say
	CreatedAt   time.Time
	Timeout     time.Duration // how long the attempt may run; 0: no limit
	Group       string
	Tags        []string
	BatchID     string
	Cron        string // the schedule that enqueued it
	// CronAt is the time of the schedule for which the job was enqueued; zero if it was
	// triggered by hand.
	CronAt    time.Time
	LastError string // of the attempt before
}

// Lease names the claim.
func (j ClaimedJob) Lease() Lease { return Lease{JobID: j.ID, Worker: j.Worker, Token: j.Token} }

// Failure is how an attempt failed.
type Failure struct {
	Error string
	// Permanent: do not try again, whatever attempts are left.
	Permanent bool
	// Delay keeps the job back before its next attempt; 0 leaves that to the
	// job's backoff.
	Delay time.Duration
	// AtOnce lets the next attempt follow without Delay and backoff.
	AtOnce bool
}

// delayMs is absent for "by the backoff".
func (f Failure) delayMs() *int64 {
	var ms int64
	if !f.AtOnce {
		ms = inMilliseconds(f.Delay)
	}
	if ms == 0 && !f.AtOnce {
		return nil
	}
	return &ms
}

func (f Failure) retryable() *bool {
	if f.Permanent {
		return new(bool)
	}
	return nil
}

// Beat is the answer to one lease of a heartbeat, or to one of many reports.
type Beat struct {
	JobID string
	// Tag is "" if the report was accepted, else why not. LostLease tells
	// whether the job is lost.
	Tag string
	// Cancel: somebody has asked for the job's cancellation. Stop working on it
	// and report the end of the attempt.
	Cancel bool
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
