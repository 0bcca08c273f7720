package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	v1 "osqueue/client/api/v1"
)

// NewJob describes a job to enqueue. The zero value is a job without type and
// payload that is available at once.
type NewJob struct {
	// ID identifies the job. "" means a new UUIDv7. Enqueueing a job again with the
	// same id changes nothing.
	ID       string
	Type     string          // selects the workers; the type is also the name of the queue
	Payload  json.RawMessage // JSON; nil: no payload
	Priority int32           // jobs with a higher priority are claimed first
	// RunAt is the time, and Delay the duration on the server's clock, after which
	// the job becomes available. Set at most one of them.
	RunAt time.Time
	Delay time.Duration
	// StartBefore is the time at which the job expires, unless a worker has claimed it
	// before. The zero time is never.
	StartBefore time.Time
	// MaxAttempts is how often the job may be attempted. Nil means the server's
	// default.
	MaxAttempts *int32
	// Lease is how long a claim lasts without a heartbeat. 0 means the lease that
	// the worker asks for, or else the server's default.
	Lease time.Duration
	// Backoff is the wait after a failed attempt. Nil means the backoff of the
	// type.
	Backoff *Backoff
	// OnError are what follows failures by their class (Failure.Class): the first one that
	// matches counts, in place of Backoff.
	OnError []OnError
	// Timeout is how long an attempt may run, with or without heartbeats. 0 means
	// the timeout of the type.
	Timeout time.Duration
	// Retain is how long the job is kept after its end. 0 means the retention of the type.
	Retain time.Duration
	// Group is the tenant group. Claims take turns among the groups.
	Group string
	Tags  []string // labels by which lists and filters select jobs
	// Limits are keys, such as "customer:7", that all must have room before the job starts; at most 8.
	Limits []string
	// Sequence lets the job wait until all earlier jobs of the sequence have ended.
	Sequence string
	// Unique prevents a second job of the same type with the same key.
	Unique Unique
	// UniqueFields are members of the payload whose values make the unique key, in place of Unique.Key; at most 16.
	UniqueFields []string
	// OnConflict is what becomes of a waiting job that has reserved the key: v1.ConflictKeep (the default, also ""),
	// v1.ConflictReplace, which gives it the fields of this one, or v1.ConflictDebounce, which also lets it run Debounce
	// after the last enqueue, but not later than DebounceMax (0: no maximum) after the first.
	OnConflict  string
	Debounce    time.Duration
	DebounceMax time.Duration
	// After are the ids of jobs that must complete before this job becomes
	// available. They must exist or be part of the same batch.
	After []string
	// AfterNames are the names of the jobs of After, in their order, under which the claim has their results. Nil: they
	// are their steps, or else their ids.
	AfterNames []string
	// AfterBatches are the ids of batches that must end before. One of which a job has not completed counts as failed.
	AfterBatches []string
	// AfterFailure is the policy if a job in After dies, expires or is cancelled:
	// v1.AfterBlock (the default, also ""), v1.AfterCancel, v1.AfterRun, or v1.AfterOnly, which runs only then.
	AfterFailure string
	Step         string // the name of the job in its batch
	// BatchID adds the job to an open workflow batch.
	BatchID string
	// Artefacts are the files of the job, which Upload has made for its ID.
	Artefacts []NamedArtefact
	// Headers go to the worker with the job, in every attempt. Names have the characters a
	// to z, 0 to 9, "-", "_" and ".".
	Headers map[string]string
}

// OnError is what follows a failure of a class.
type OnError struct {
	Class string        // "*" is any failure, also one without a class
	Dead  bool          // the job is dead; otherwise it is retried, while it has attempts
	Delay time.Duration // before the retry; 0: at once
}

func onErrorInWire(rules []OnError) (out []v1.OnError) {
	for _, r := range rules {
		action := v1.OnErrorRetry
		if r.Dead {
			action = v1.OnErrorDead
		}
		out = append(out, v1.OnError{Class: r.Class, Action: action, DelayMs: inMilliseconds(r.Delay)})
	}
	return out
}

// Backoff is the wait of a job after its n-th failed attempt. It is v1.Backoff with
// durations.
type Backoff struct {
	Kind   string // v1.BackoffNone, BackoffFixed, BackoffLinear or BackoffExponential
	Base   time.Duration
	Cap    time.Duration // the longest wait; 0: no limit
	Jitter int           // the wait is shortened at random by up to this many percent
}

func (b *Backoff) wire() *v1.Backoff {
	if b == nil {
		return nil
	}
	return &v1.Backoff{
		Kind: b.Kind, BaseMs: inMilliseconds(b.Base), CapMs: inMilliseconds(b.Cap), Jitter: int64(b.Jitter),
	}
}

// Unique is a key that only one job of a type can reserve at a time. The zero value
// reserves no key.
type Unique struct {
	Key string
	// Scope is how long the job reserves the key: v1.UniqueWaiting until it is
	// claimed, v1.UniqueActive (the default, also "") until it has ended,
	// v1.UniquePeriod for Period.
	Scope  string
	Period time.Duration // from the enqueue on
}

// Enqueued is the result of enqueueing one job.
type Enqueued struct {
	// JobID is the id of the job, or of the other job that has reserved the unique
	// key.
	JobID string
	LSN   string // the position of the write in the log
	// Committed is the level of the write: AckQuorum or AckObject.
	Committed Ack
	// Duplicate is true if nothing was added, because the job existed already or
	// another job has reserved its unique key.
	Duplicate bool
	Replaced  bool // the other job has got the fields of this one
	// Holder is the id of the other job that has reserved the unique key; "" if
	// there is none.
	Holder string
}

// ClaimOptions describe a claim request of a worker.
type ClaimOptions struct {
	Worker string   // the name of the worker that gets the leases
	Types  []string // empty: any type
	Max    int      // the most jobs to claim; less than 1 means 1
	// Wait is how long the server may wait for the first job.
	Wait time.Duration
	// Lease is how long the claim lasts without a heartbeat. 0 means the lease of
	// the job, or else the server's default.
	Lease time.Duration
	// RequestID makes a repeated claim return the same jobs. "" means a new id. Set
	// it to repeat a claim whose outcome is unknown.
	RequestID string
	// Instance is the instance of the worker, as it was registered.
	Instance string
	// Confirms promises a heartbeat for each job with ClaimedJob.Confirm before it starts. If
	// the lease of such a job ends without one, the attempt does not count.
	Confirms bool
}

// Lease identifies a claim of a job, for heartbeats and reports.
type Lease struct {
	JobID  string
	Worker string
	// Token is the fencing token of the claim. With 0 the server checks only the
	// name of the worker, and also accepts the report if that worker has claimed
	// the job again.
	Token uint64
	// Progress is sent with a heartbeat. Other reports ignore it.
	Progress *Progress
	// Delay is how long a released job is scheduled. Other reports ignore it.
	Delay time.Duration
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

// ClaimedJob is a job that the caller has leased.
type ClaimedJob struct {
	ID       string
	Type     string
	Payload  json.RawMessage // nil: no payload
	Priority int32
	Attempt  int           // counts from 1
	Token    uint64        // grows with every claim; pass it to other systems to fence side effects
	Length   time.Duration // how long the lease lasts
	Age      time.Duration // the age of the lease at the time of the answer; a repeated claim returns an older lease
	Worker   string        // the name of the worker that has the lease

	MaxAttempts int // 0: the server did not say
	// Confirm is true for the last attempt of a job whose claim has Confirms.
	Confirm   bool
	CreatedAt time.Time
	Timeout   time.Duration // how long the attempt may run; 0: no limit
	Group     string
	Tags      []string
	Headers   map[string]string // of the producer
	Limits    []string          // sorted
	BatchID   string            // "": the job is in no batch
	Cron      string            // the schedule that enqueued the job
	// CronAt is the time of the schedule for which the job was enqueued. It is zero
	// if TriggerCron enqueued it.
	CronAt    time.Time
	LastError string // the error of the attempt before
	Step      string // its name in the batch
	// Parents are the jobs that it was enqueued to run after, in that order.
	Parents []v1.Parent
	// Steps are the values that earlier attempts have stored, and Signals those that the job was sent, the oldest first.
	Steps   []v1.Step
	Signals []v1.Signal
	// OpenErr is a *SealError if the payload could not be decrypted, and is encrypted
	// therefore. Package worker then fails the attempt.
	OpenErr error
}

// Lease returns the lease of the claim, for heartbeats and reports.
func (j ClaimedJob) Lease() Lease { return Lease{JobID: j.ID, Worker: j.Worker, Token: j.Token} }

// Failure describes a failed attempt.
type Failure struct {
	Error string // what failed, for people; the job keeps it as its last error
	// Class is what kind of error it is, at most 64 bytes, for NewJob.OnError; "" is none. It is
	// never encrypted.
	Class string
	// Public says that Error has nothing of the job's content: Config.Cipher does not
	// encrypt it, so that everybody can read why the job failed.
	Public bool
	// Permanent marks the job dead, whatever attempts are left.
	Permanent bool
	// Delay is the wait before the next attempt. 0 means the backoff of the job.
	Delay time.Duration
	// AtOnce makes the job available at once, without Delay and backoff.
	AtOnce bool
}

// delayMs returns the delay in the wire format, or nil for the backoff of the job.
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

// Beat is the result for one lease of a heartbeat, or for one report of a batch.
type Beat struct {
	JobID string
	// Tag is "" if the report was accepted, otherwise the reason of the refusal.
	// LostLease(Tag) reports whether the lease is lost.
	Tag string
	// Cancel is true if someone asked to cancel the job. Stop working on it and
	// report the end of the attempt.
	Cancel bool
}

// WorkerInfo describes a worker to register. Without Types it claims jobs of any type. NewInstance makes its
// Instance. A registered worker that sends nothing for 30 s (the server's setting) is declared dead.
type WorkerInfo = v1.WorkerInfo

// NewInstance returns a new instance of a worker. Processes may share a name, at least while
// one replaces the other; RemoveInstance takes only the jobs that claims of the instance got.
func NewInstance() string { return fmt.Sprintf("%016x", rand.Uint64()|1) }

// NewID returns a new id for a job or a request. It is a UUIDv7: ids in the order
// of time keep the indexes of the cluster compact.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New() // panics only if the system has no source of randomness
	}
	return id.String()
}
