package fsm

// Status is where a job stands. The zero value is no status.
type Status uint8

// The statuses of a job. The order is that of snapshots and must not change.
const (
	Scheduled  Status = iota + 1 // not before RunAt
	Unclaimed                    // waits for a worker
	InProgress                   // leased to a worker
	Completed                    // ended well; kept for the retention time
	Dead                         // out of attempts or failed for good; kept
	Cancelled                    // taken back by its producer
	Blocked                      // waits for other jobs

	numStatuses = iota + 1
)

var statusNames = [numStatuses]string{
	"", "scheduled", "unclaimed", "in_progress", "completed", "dead", "cancelled", "blocked",
}

// String returns the status as it is written on the wire.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return ""
}

// ParseStatus reads what String prints; ok is false for anything else.
func ParseStatus(name string) (s Status, ok bool) {
	for i := Scheduled; i < numStatuses; i++ {
		if statusNames[i] == name {
			return i, true
		}
	}
	return 0, false
}

// End says how the last attempt of a job that is not in progress ended. With
// the token it lets a worker whose answer was lost repeat its report.
type End uint8

// The ends of an attempt. The order is that of snapshots and must not change.
const (
	NoEnd      End = iota
	EndOK          // completed
	EndFail        // reported as failed
	EndGiven       // released by its worker
	EndLease       // the lease ran out, or the worker was declared dead
	EndTimeout     // it ran longer than its timeout

	numEnds = iota
)

var endNames = [numEnds]string{"", "completed", "failed", "released", "lease_expired", "timed_out"}

// String returns the end's name as used on the wire, "" for NoEnd.
func (e End) String() string { return nameOf(endNames[:], e) }

// Anonymous is the worker of a claim that named none. It is a worker of its
// own, not the worker "". Names given by callers must not contain NUL.
const Anonymous = "\x00"

// MaxAttemptsUnset is Job.MaxAttempts of a job whose producer gave none; the
// default of the settings in force counts then.
const MaxAttemptsUnset = -1

// Job is one unit of work. A *Job handed out by a Machine or View is
// immutable: every change makes a new one.
type Job struct {
	// Seq is the job's place in the FIFO order. It is given at enqueue and
	// kept over attempts.
	Seq         uint64
	ID          string
	Type        string // also the queue's name; "" is allowed
	Payload     []byte // JSON, kept byte for byte; nil when absent
	Result      []byte // JSON; nil when absent
	LastError   string
	Worker      string // who holds it, or ended it; "" is a name like any other
	Status      Status
	AttemptEnd  End
	Priority    int32 // higher first
	Attempts    int32 // claims so far that were not released
	MaxAttempts int32 // MaxAttemptsUnset takes the default

	CreatedAt  int64 // ms
	RunAt      int64 // ms; 0 when never scheduled
	ClaimedAt  int64 // ms, of the last claim
	Heartbeat  int64 // ms, of the last claim or heartbeat
	FinishedAt int64 // ms

	LeaseMs int64 // the producer's wish; 0 takes the worker's or the default
	HeldMs  int64 // length of the current or last lease
	// Token is the fencing token of the last claim; it grows with every claim
	// of any job, also across a takeover by another cluster.
	Token uint64

	Opt *Options // nil: all are zero; read it by Options
	Det *Details // nil: all are zero; read it by Details

	timerAt int64 // where the lease's timer stands; derived, not encoded
}

// Worker is an entry of the worker registry. Immutable, like Job.
type Worker struct {
	Name         string
	Types        []string
	Version      string
	Address      string
	RegisteredAt int64 // ms
	LastSeen     int64 // ms

	timerAt int64 // where the worker's timer stands; derived, not encoded
}

// ClaimRecord remembers the answer to a claim for a minute, so that a repeated
// request gets the same jobs. Immutable, like Job.
type ClaimRecord struct {
	Worker    string
	RequestID string
	ClaimedAt int64   // ms
	Leases    []Lease // at least one
}

// Lease names a claimed job by its id and the claim's fencing token. Token 0
// stands for "no token given": the worker's name alone decides then.
type Lease struct {
	JobID string
	Token uint64
}
