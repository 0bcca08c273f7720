package fsm

// Options has the fields of a job that few producers set. They never change after the
// enqueue, so all versions of a job share them.
type Options struct {
	Backoff      Backoff // kind BackoffUnset takes the type's
	TimeoutMs    int64   // of an attempt, even with heartbeats; 0 takes the type's
	Group        string  // claims rotate over the groups of a type; "" is a group as well
	Tags         []string
	Unique       Unique
	After        []string // ids of the jobs that it waits for
	AfterFailure AfterFailure
	Batch        string   // id of the batch that it belongs to
	Cron         string   // name of the schedule that enqueued it
	Headers      []Header // sorted by name
	Account      string   // in which it counts (account.go); "": none
}

// Backoff is the rule for the wait of a failed job before its next attempt. After n
// attempts a fixed backoff is base, a linear one base·n, an exponential one base·2^(n-1),
// at most the cap, lowered by up to Jitter percent.
type Backoff struct {
	Kind   BackoffKind
	Jitter uint8 // percent; next to Kind, where it takes no memory
	BaseMs int64
	CapMs  int64 // 0: none
}

// BackoffKind is the growth of a delay with the attempts.
type BackoffKind uint8

// The kinds of backoff. Snapshots have these numbers: they must not change.
const (
	BackoffUnset BackoffKind = iota
	BackoffNone
	BackoffFixed
	BackoffLinear
	BackoffExponential

	numBackoffs = iota
)

var backoffNames = [numBackoffs]string{"", "none", "fixed", "linear", "exponential"}

// String returns the kind's name as used on the wire, "" for BackoffUnset.
func (k BackoffKind) String() string { return nameOf(backoffNames[:], k) }

// ParseBackoffKind reads the text of BackoffKind.String; ok is false for any other text.
func ParseBackoffKind(name string) (k BackoffKind, ok bool) {
	return parseName[BackoffKind](backoffNames[:], name)
}

// Unique is a key that only one job of a type may hold at a time. An empty key is no key.
type Unique struct {
	Key      string
	Scope    UniqueScope
	PeriodMs int64 // of UniquePeriod
}

// UniqueScope is the period in which a job holds its unique key.
type UniqueScope uint8

// The scopes. Snapshots have these numbers: they must not change.
const (
	UniqueNone    UniqueScope = iota
	UniqueWaiting             // until the job is claimed, and again after it returns to the queue
	UniqueActive              // until it has ended
	UniquePeriod              // for PeriodMs from its creation, in whatever status

	numScopes = iota
)

var scopeNames = [numScopes]string{"", "waiting", "active", "period"}

// String returns the scope's name as used on the wire, "" for UniqueNone.
func (s UniqueScope) String() string { return nameOf(scopeNames[:], s) }

// ParseUniqueScope reads the text of UniqueScope.String; ok is false for any other text.
func ParseUniqueScope(name string) (s UniqueScope, ok bool) {
	return parseName[UniqueScope](scopeNames[:], name)
}

// AfterFailure is the effect on a waiting job if a job that it waits for dies or is
// cancelled.
type AfterFailure uint8

// The choices. Snapshots have these numbers: they must not change.
const (
	AfterBlock  AfterFailure = iota // it keeps waiting: the other job may be retried
	AfterCancel                     // it is cancelled
	AfterRun                        // it stops waiting for that job

	numAfters = iota
)

var afterNames = [numAfters]string{"block", "cancel", "run"}

// String returns the choice's name as used on the wire.
func (a AfterFailure) String() string { return nameOf(afterNames[:], a) }

// ParseAfterFailure reads the text of AfterFailure.String; ok is false for any other
// text.
func ParseAfterFailure(name string) (a AfterFailure, ok bool) {
	for i, n := range afterNames {
		if n == name {
			return AfterFailure(i), true
		}
	}
	return 0, false
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
	noOptions   Options
	noExecution Execution
	noDetails   Details
)

// Options returns the options of the job; never nil.
func (j *Job) Options() *Options {
	if j.Opt == nil {
		return &noOptions
	}
	return j.Opt
}

// Details returns the job's details; never nil.
func (j *Job) Details() *Details {
	if j.Det == nil {
		return &noDetails
	}
	return j.Det
}

func nameOf[K ~uint8](names []string, k K) string {
	if int(k) < len(names) {
		return names[k]
	}
	return ""
}

// parseName returns the index of name in names; names[0] stands for none.
func parseName[K ~uint8](names []string, name string) (K, bool) {
	for i, n := range names[1:] {
		if n == name {
			return K(i + 1), true
		}
	}
	return 0, false
}
