package fsm

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

	timerAt int64 // the time of the timeout's timer; derived, not encoded
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
