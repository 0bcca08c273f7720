// Package job has one job: its fields, the options that its producer chose, the record that a snapshot has of it, and the hash
// by which a repeated enqueue is recognised. It decides nothing about other jobs; package fsm does. A job does not change: a
// change makes another one, so that views and answers may keep it.
package job

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unsafe"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// Status is the state of a job. The zero value is no status.
type Status uint8

// The statuses of a job. Snapshots have these numbers: they must not change.
const (
	Scheduled  Status = iota + 1 // not available before RunAt
	Unclaimed                    // available: ready to be claimed
	InProgress                   // leased to a worker
	Completed                    // succeeded; kept for the retention time
	Dead                         // out of attempts or failed permanently; kept
	Cancelled                    // cancelled by a request
	Blocked                      // waits for other jobs
	Expired                      // did not start before Options.StartBefore; it counts as cancelled

	NumStatuses = iota + 1
)

var statusNames = [NumStatuses]string{
	"", "scheduled", "unclaimed", "in_progress", "completed", "dead", "cancelled", "blocked", "expired",
}

// String returns the status as it is written on the wire.
func (s Status) String() string { return NameOf(statusNames[:], s) }

// ParseStatus reads the text of Status.String; ok is false for any other text.
func ParseStatus(name string) (s Status, ok bool) { return ParseName[Status](statusNames[:], name) }

// End is the way in which the last attempt of a job ended. With the token it lets a
// worker whose answer was lost repeat its report.
type End uint8

// The ends of an attempt. Snapshots have these numbers: they must not change.
const (
	NoEnd        End = iota
	EndOK            // completed
	EndFail          // reported as failed
	EndReleased      // released by its worker
	EndLease         // the lease expired, or the worker was declared dead
	EndTimeout       // it ran longer than its timeout
	EndSuspended     // suspended by its worker

	NumEnds = iota
)

var endNames = [NumEnds]string{"", "completed", "failed", "released", "lease_expired", "timed_out", "suspended"}

// String returns the end's name as used on the wire, "" for NoEnd.
func (e End) String() string { return NameOf(endNames[:], e) }

// Anonymous is the worker name of a claim that named none.
const Anonymous = tenants.Anonymous

// MaxAttemptsUnset is the value of Job.MaxAttempts if the producer gave none. The default
// of the current settings applies then.
const MaxAttemptsUnset = -1

// Job is one unit of work. A *Job from a Machine or View is immutable: every change makes
// a new one.
type Job struct {
	// Seq is the job's place in the FIFO order. The machine gives it at enqueue and
	// keeps it over all attempts.
	Seq         uint64
	ID          string
	Type        string // also the queue's name; "" is allowed
	payload     string // see Payload
	Status      Status
	AttemptEnd  End
	hasPayload  bool
	Priority    int32 // higher first
	Attempts    int32 // claims so far that were not released
	MaxAttempts int32 // MaxAttemptsUnset takes the default
	CreatedAt   int64 // ms
	RunAt       int64 // ms; 0 when never scheduled

	Opt  *Options   // nil: all are zero; read it by Options
	Exec *Execution // nil: all are zero; read it by Execution
	Det  *Details   // nil: all are zero; read it by Details
}

// Payload returns the JSON of the job, byte for byte, or nil if it has none. The caller must
// not change it.
func (j *Job) Payload() []byte {
	switch {
	case !j.hasPayload:
		return nil
	case j.payload == "":
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(j.payload), len(j.payload)) //nolint:gosec // it does not change
}

// PayloadLen returns the number of bytes of the payload.
func (j *Job) PayloadLen() int { return len(j.payload) }

// SetPayload gives a new job its payload; nil is none. The job keeps it without a copy, and without
// its capacity: every job is 8 bytes smaller so.
func (j *Job) SetPayload(p []byte) {
	j.payload, j.hasPayload = unsafe.String(unsafe.SliceData(p), len(p)), p != nil //nolint:gosec // it does not change
}

// hold gives a new job copies of its id and payload, in one allocation. The id keeps the payload
// in memory: whatever outlives the job copies it.
func (j *Job) Hold(id string, payload []byte) {
	if len(payload) == 0 || len(id)+len(payload) > holdMax {
		j.ID = strings.Clone(id)
		j.SetPayload(bytes.Clone(payload))
		return
	}
	var both strings.Builder
	both.Grow(len(id) + len(payload))
	both.WriteString(id)
	both.Write(payload)
	j.ID, j.payload, j.hasPayload = both.String()[:len(id)], both.String()[len(id):], true
}

// holdMax bounds the memory that an id can keep alive.
const holdMax = 4 << 10

// Execution has the fields that a job gets by a claim or at its end. Few waiting jobs have
// one. It is immutable.
type Execution struct {
	Result    []byte // JSON; nil when absent
	LastError string
	Worker    string // the worker that runs it or ended it; "" is a valid name

	ClaimedAt  int64 // ms, of the last claim
	Heartbeat  int64 // ms, of the last claim or heartbeat
	FinishedAt int64 // ms

	LeaseMs int64 // the lease that the producer asked for; 0 takes the worker's or the default
	HeldMs  int64 // length of the current or last lease
	// Token is the fencing token of the last claim; it grows with every claim
	// of any job, also across a takeover by another cluster.
	Token uint64
	// Instance is the instance of the worker that claimed it (Worker.Instance), or 0.
	Instance uint64
	// Unconfirmed is true if the attempt is the job's last one, and its worker confirms it by
	// a heartbeat before it starts it, and has not done so.
	Unconfirmed bool

	TimerAt int64 // the time of the lease's timer; derived, not encoded
}

// Execution returns the execution of the job; never nil.
func (j *Job) Execution() *Execution {
	if j.Exec == nil {
		return &noExecution
	}
	return j.Exec
}

func (e *Execution) Zero() bool {
	return e.Result == nil && e.LastError == "" && e.Worker == "" && e.ClaimedAt == 0 && e.Heartbeat == 0 && e.FinishedAt == 0 &&
		e.LeaseMs == 0 && e.HeldMs == 0 && e.Token == 0 && e.Instance == 0 && !e.Unconfirmed
}

// Change returns a copy of j with an execution of its own. The caller may change the fields
// of both until it gives the job away. The two need one allocation.
func (j *Job) Change() *Job {
	c := new(struct {
		job  Job
		exec Execution
	})
	c.job, c.exec = *j, *j.Execution()
	c.job.Exec = &c.exec
	return &c.job
}

// ended reports whether a job in status s changes only by a request.
func (s Status) Ended() bool { return s == Completed || s == Dead || s == Cancelled || s == Expired }

// size returns the bytes of a job that count in quotas.
func (j *Job) Size() int64 {
	return int64(len(j.payload)+len(j.Execution().Result)+len(j.Details().Log)) + j.Details().Kept + j.Opt.TextBytes()
}

func (j *Job) InGroup() string {
	if j.Opt == nil {
		return ""
	}
	return j.Opt.Group
}

// Details has the fields that few jobs have while they live. It is immutable.
type Details struct {
	History    []Attempt // the last failed attempts (historyMax), oldest first
	Progress   Progress
	ProgressAt int64    // ms; 0: none was reported
	Waits      []string // ids of the jobs that it still waits for
	CancelAt   int64    // ms; when its cancellation was requested while it was running
	TimeoutMs  int64    // of the running or last attempt; 0: none
	// Log is the log of the attempt that completed the job, at most LogMax bytes, or "".
	Log string
	// Owner is the owner of the last claim, a hash of the caller's identity; 0 if the claim
	// named none. Only this owner, or a caller without one, may report on the attempt.
	Owner uint64
	// GivenBack is the number of last attempts that ended unconfirmed and did not count, at
	// most giveBackMax.
	GivenBack uint8
	// Revision is the number of edits. Content is the hash of the request that made the job, from the first edit on.
	Revision uint64
	Content  string
	InLine   bool // it waits for an earlier job of its sequence
	// Revived is true if the job was retried before its first attempt: Options.StartBefore does not count any more.
	Revived bool
	// Steps are the values that its attempts have stored, and Signals those that it was sent, the oldest first. Awaits is the signal
	// for which it is suspended, or "". Links allow others to send one.
	Steps   []*fsmpb.Step
	Signals []*fsmpb.Signal
	Awaits  string
	Links   []*fsmpb.SignalLink
	// FailedBefore is true if one of the jobs that it waited for has failed, with AfterOnly.
	FailedBefore bool

	TimerAt int64 // the time of the timeout's timer; derived, not encoded
	Kept    int64 // bytes of the steps and signals; derived, not encoded
}

// LogMax is the largest log of an attempt, in bytes.
const LogMax = 16 << 10

// Progress is the progress of an attempt, as its worker reported it.
type Progress struct {
	Percent uint8
	Message string
}

// Attempt is one failed attempt.
type Attempt struct {
	Number    int32
	StartedAt int64 // ms
	EndedAt   int64 // ms
	Worker    string
	Error     string // cut at historyErrorMax
	End       End
	Class     string // of the error, as its worker reported it
}

var (
	noExecution Execution
	noDetails   Details
)

// Details returns the job's details; never nil.
func (j *Job) Details() *Details {
	if j.Det == nil {
		return &noDetails
	}
	return j.Det
}

// NamesFor returns the names of objects for a caller of a tenant.
func NamesFor(tenant string, owned []string) []string {
	out := slices.Clone(owned)
	for i, name := range out {
		out[i] = tenants.NameFor(tenant, name)
	}
	return out
}

// For returns the job as a caller of a tenant sees it, with tenants.NameFor of each name.
func (j *Job) For(tenant string) *Job {
	o := j.Options()
	d, owns := j.Details(), tenants.Owns
	if !owns(j.Execution().Worker) && !owns(o.Batch) && !owns(o.Cron) && !owns(o.Unique.Key) && !owns(o.Sequence) &&
		!slices.ContainsFunc(o.Limits, owns) && !slices.ContainsFunc(o.AfterBatches, owns) && !slices.ContainsFunc(d.Waits, waitsForBatch) &&
		!slices.ContainsFunc(d.History, func(a Attempt) bool { return owns(a.Worker) }) {
		return j
	}
	out := *j
	if out.Exec != nil {
		x := *out.Exec
		x.Worker = tenants.NameFor(tenant, x.Worker)
		out.Exec = &x
	}
	if out.Opt != nil {
		o := *out.Opt
		o.Batch, o.Cron, o.Unique.Key = tenants.NameFor(tenant, o.Batch), tenants.NameFor(tenant, o.Cron), tenants.NameFor(tenant, o.Unique.Key)
		o.Limits, o.AfterBatches, o.Sequence = NamesFor(tenant, o.Limits), NamesFor(tenant, o.AfterBatches), tenants.NameFor(tenant, o.Sequence)
		out.Opt = &o
	}
	if out.Det != nil {
		d := *out.Det
		d.Waits = waitsFor(tenant, d.Waits)
		d.History = slices.Clone(d.History)
		for i := range d.History {
			d.History[i].Worker = tenants.NameFor(tenant, d.History[i].Worker)
		}
		out.Det = &d
	}
	return &out
}

// ExpiresAt returns the time at which j expires if it does not start before, in ms; 0 is never. A job that was claimed
// once, or retried, does not expire.
func (j *Job) ExpiresAt() int64 {
	if j.Opt == nil || j.Execution().Token != 0 || j.Details().Revived || j.Status == InProgress || j.Status.Ended() {
		return 0
	}
	return max(j.Opt.StartBefore, 0)
}

// Drop forgets the steps and signals of a job.
func (d *Details) Drop() { d.Steps, d.Signals, d.Kept = nil, nil, 0 }

// Step returns the step of that name, or nil.
func (d *Details) Step(name string) *fsmpb.Step {
	i := slices.IndexFunc(d.Steps, func(s *fsmpb.Step) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return d.Steps[i]
}

// Signal returns the first signal that fits, or nil.
func (d *Details) Signal(fits func(*fsmpb.Signal) bool) *fsmpb.Signal {
	i := slices.IndexFunc(d.Signals, fits)
	if i < 0 {
		return nil
	}
	return d.Signals[i]
}

// StepSize and SignalSize return the bytes that count.
func StepSize(s *fsmpb.Step) int64     { return int64(len(s.Name) + len(s.Value)) }
func SignalSize(s *fsmpb.Signal) int64 { return int64(len(s.Name) + len(s.Value) + len(s.Id)) }

// keep counts the steps and signals of a restored job.
func (d *Details) keep() {
	for _, s := range d.Steps {
		d.Kept += StepSize(s)
	}
	for _, s := range d.Signals {
		d.Kept += SignalSize(s)
	}
}

// FreeStatus returns the status of a job that has neither been claimed nor ended.
func (j *Job) FreeStatus(now int64) Status {
	if d := j.Details(); d.InLine || len(d.Waits) > 0 {
		return Blocked
	}
	return j.ReadyStatus(now)
}

// readyStatus returns the status of a job that waits for no other job.
func (j *Job) ReadyStatus(now int64) Status {
	if j.RunAt > now {
		return Scheduled
	}
	return Unclaimed
}

// changeDetails gives j a changed copy of its details, or nil if all of them are zero.
func (j *Job) ChangeDetails(how func(*Details)) {
	d := *j.Details()
	how(&d)
	if d.Zero() {
		j.Det = nil
		return
	}
	j.Det = &d
}

func (d *Details) Zero() bool {
	return len(d.History) == 0 && d.Progress == (Progress{}) && d.ProgressAt == 0 &&
		len(d.Waits) == 0 && d.CancelAt == 0 && d.TimeoutMs == 0 && d.Log == "" && d.Owner == 0 && d.GivenBack == 0 && d.Revision == 0 && !d.InLine && !d.Revived &&
		len(d.Steps) == 0 && len(d.Signals) == 0 && d.Awaits == "" && len(d.Links) == 0 && !d.FailedBefore
}

// producedSize is NewSize of the job that became j.
func (j *Job) ProducedSize() int64 {
	return int64(len(j.payload)) + j.Opt.TextBytes()
}

// Elapsed returns the time from at to now, at least 0.
func Elapsed(at, now int64) int64 {
	if at < 0 && now > math.MaxInt64+at {
		return math.MaxInt64
	}
	return now - at
}

// Later adds durations to a time, all in ms. A sum outside of int64 saturates, so that no
// length of a lease, delay or retention, however large, turns the far future into the
// past.
func Later(at int64, durations ...int64) int64 {
	for _, d := range durations {
		sum := at + d
		switch {
		case d > 0 && sum < at:
			sum = math.MaxInt64
		case d < 0 && sum > at:
			sum = math.MinInt64
		}
		at = sum
	}
	return at
}
