package fsm

import "osqueue/fsm/job"

// Jobs, as package job has them.
type (
	Job          = job.Job
	Options      = job.Options
	Execution    = job.Execution
	Details      = job.Details
	Attempt      = job.Attempt
	Progress     = job.Progress
	Unique       = job.Unique
	Status       = job.Status
	End          = job.End
	UniqueScope  = job.UniqueScope
	AfterFailure = job.AfterFailure
	OnConflict   = job.OnConflict
)

// The statuses of a job.
const (
	Scheduled  = job.Scheduled
	Unclaimed  = job.Unclaimed
	InProgress = job.InProgress
	Completed  = job.Completed
	Dead       = job.Dead
	Cancelled  = job.Cancelled
	Blocked    = job.Blocked
	Expired    = job.Expired
)

// The ends of an attempt.
const (
	NoEnd        = job.NoEnd
	EndOK        = job.EndOK
	EndFail      = job.EndFail
	EndReleased  = job.EndReleased
	EndLease     = job.EndLease
	EndTimeout   = job.EndTimeout
	EndSuspended = job.EndSuspended
)

// The scopes of unique keys.
const (
	UniqueNone    = job.UniqueNone
	UniqueWaiting = job.UniqueWaiting
	UniqueActive  = job.UniqueActive
	UniquePeriod  = job.UniquePeriod
)

// The effects of an enqueue on a waiting job with its unique key.
const (
	ConflictKeep     = job.ConflictKeep
	ConflictReplace  = job.ConflictReplace
	ConflictDebounce = job.ConflictDebounce
)

// The effects of the end of an earlier job.
const (
	AfterBlock  = job.AfterBlock
	AfterCancel = job.AfterCancel
	AfterRun    = job.AfterRun
	AfterOnly   = job.AfterOnly
)

// Values of jobs.
const (
	Anonymous        = job.Anonymous
	MaxAttemptsUnset = job.MaxAttemptsUnset
	LogMax           = job.LogMax
	HeadersMax       = job.HeadersMax
	HeaderNameMax    = job.HeaderNameMax
	HeadersSizeMax   = job.HeadersSizeMax
	LimitsMax        = job.LimitsMax
	LimitNameMax     = job.LimitNameMax
)

// ParseStatus, ParseUniqueScope and HeaderName are those of package job.
var (
	ParseStatus      = job.ParseStatus
	ParseUniqueScope = job.ParseUniqueScope
	HeaderName       = job.HeaderName
)
