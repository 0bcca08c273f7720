package fsm

// Options are what few producers ask for. They never change once the job is
// there, so all forms of a job share them.
type Options struct {
	Backoff      Backoff // kind BackoffUnset takes the type's
	TimeoutMs    int64   // of an attempt, whatever its heartbeats; 0 takes the type's
	Group        string  // claims rotate over the groups of a type; "" is a group, too
	Tags         []string
	Unique       Unique
	After        []string // ids of the jobs that it waits for
	AfterFailure AfterFailure
	Batch        string // id of the batch that it belongs to
	Cron         string // name of the schedule that enqueued it
}

// Backoff says how long a failed job waits for its next attempt. After n
// attempts a fixed one is base, a linear one base·n, an exponential one
// base·2^(n-1), cut at the cap and lowered by up to Jitter percent.
type Backoff struct {
	Kind   BackoffKind
	BaseMs int64
	CapMs  int64 // 0: none
	Jitter uint8 // percent
}

// BackoffKind is how a delay grows with the attempts.
type BackoffKind uint8

// The kinds of backoff. The order is that of snapshots and must not change.
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

// ParseBackoffKind reads what String prints; ok is false for anything else.
func ParseBackoffKind(name string) (k BackoffKind, ok bool) {
	return parseName[BackoffKind](backoffNames[:], name)
}

// Unique is a key that only one job of a type may hold at a time. The empty key
// is none.
type Unique struct {
	Key      string
	Scope    UniqueScope
	PeriodMs int64 // of UniquePeriod
}

// UniqueScope is how long a job holds its unique key.
type UniqueScope uint8

// The scopes. The order is that of snapshots and must not change.
const (
	UniqueNone    UniqueScope = iota
	UniqueWaiting             // until the job is claimed, and again when it comes back
	UniqueActive              // until it has ended
	UniquePeriod              // for PeriodMs from its creation, whatever becomes of it

	numScopes = iota
)

var scopeNames = [numScopes]string{"", "waiting", "active", "period"}

// String returns the scope's name as used on the wire, "" for UniqueNone.
func (s UniqueScope) String() string { return nameOf(scopeNames[:], s) }

// ParseUniqueScope reads what String prints; ok is false for anything else.
func ParseUniqueScope(name string) (s UniqueScope, ok bool) {
	return parseName[UniqueScope](scopeNames[:], name)
}

// AfterFailure is what becomes of a job when one that it waits for dies or is
// cancelled.
type AfterFailure uint8

// The choices. The order is that of snapshots and must not change.
const (
	AfterBlock  AfterFailure = iota // it waits on: a retry may save the other
	AfterCancel                     // it is cancelled
	AfterRun                        // it does not wait for that one any longer

	numAfters = iota
)

var afterNames = [numAfters]string{"block", "cancel", "run"}

// String returns the choice's name as used on the wire.
func (a AfterFailure) String() string { return nameOf(afterNames[:], a) }

// ParseAfterFailure reads what String prints; ok is false for anything else.
func ParseAfterFailure(name string) (a AfterFailure, ok bool) {
	for i, n := range afterNames {
		if n == name {
			return AfterFailure(i), true
		}
	}
	return 0, false
}

// Details are what few jobs have while they live. Immutable, like Job.
type Details struct {
	History    []Attempt // that ended badly, oldest first; the last HistoryMax
	Progress   Progress
	ProgressAt int64    // ms; 0: none was reported
	Waits      []string // ids of the jobs that it still waits for
	CancelAt   int64    // ms; when its cancellation was requested while it ran
	TimeoutMs  int64    // of the attempt that runs, or the last; 0: none
	// Extra has members of queue.json that are not ours: a JSON object without white
	// space, at most ExtraMax bytes, or "".
	Extra string
	// Log is what the attempt that completed the job had to say beside its result, at
	// most LogMax bytes; "": nothing.
	Log string

	timerAt int64 // where the timeout's timer stands; derived, not encoded
}

// LogMax bounds the log of an attempt, in bytes.
const LogMax = 16 << 10

// Progress is how far a worker says it has come.
type Progress struct {
	Percent uint8
	Message string
}

// Attempt is one that ended badly.
type Attempt struct {
	Number    int32
	StartedAt int64 // ms
	EndedAt   int64 // ms
	Worker    string
	Error     string // cut at historyErrorMax
	End       End
}

var (
	noOptions Options
	noDetails Details
)

// Options returns what the producer asked for; never nil.
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

// parseName finds a name behind the first, which stands for none.
func parseName[K ~uint8](names []string, name string) (K, bool) {
	for i, n := range names[1:] {
		if n == name {
			return K(i + 1), true
		}
	}
	return 0, false
}
