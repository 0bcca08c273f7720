package v1

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

// The words for two statuses that people read and write. The wire has older names
// for them, on which programs depend.
const (
	WordAvailable = "available" // StatusUnclaimed
	WordRunning   = "running"   // StatusInProgress
)

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

// The values of NewBatch.CallbackOn.
const (
	CallbackEnded     = "ended"
	CallbackCompleted = "completed"
)

// The values of NewCron.Overlap and NewCron.Missed.
const (
	OverlapAllow = "allow"
	OverlapSkip  = "skip"
	MissedSkip   = "skip"
	MissedOne    = "one"
)

// The Status of a ReportedItem that was accepted.
const (
	ItemOK        = "ok"
	ItemDuplicate = "duplicate"
)

// The kinds of edges.
const (
	EdgeAfter    = "after"    // a job runs after a job
	EdgeBatch    = "batch"    // a job counts in a batch
	EdgeCallback = "callback" // a batch enqueues a job at its end
)

// The values of Status.State.
const (
	StateLeader    = "leader" // answers writes
	StateFollower  = "follower"
	StateCandidate = "candidate" // also raft's leader while it may not answer writes yet
)

// The kinds of events.
const (
	EventEnqueued   = "job.enqueued"
	EventDue        = "job.due"       // scheduled, and its time has come
	EventUnblocked  = "job.unblocked" // what it waited for is over
	EventClaimed    = "job.claimed"
	EventCompleted  = "job.completed"
	EventFailed     = "job.failed"    // and is tried again
	EventExpired    = "job.expired"   // its lease, and is tried again
	EventTimedOut   = "job.timed_out" // and is tried again
	EventReleased   = "job.released"
	EventDead       = "job.dead"
	EventCancelling = "job.cancelling" // requested while it runs
	EventCancelled  = "job.cancelled"
	EventRetried    = "job.retried"
	EventProgress   = "job.progress"
	EventRemoved    = "job.removed"

	EventBroker           = "broker.registered"
	EventWorkerRegistered = "worker.registered"
	EventWorkerDead       = "worker.dead"
	EventWorkerSet        = "worker.set" // it is quiet, or gets jobs again: see Message
	EventQueueSet         = "queue.set"
	EventCronPut          = "cron.put"
	EventCronDeleted      = "cron.deleted"
	EventCronFired        = "cron.fired"
	EventCronSkipped      = "cron.skipped"
	EventBatchEnded       = "batch.ended"

	// EventBucketAway and EventBucketBack: flushes fail, and succeed again.
	// EventWritesRefused and EventWritesAccepted: writes are refused because the
	// bucket is too far behind, and accepted again.
	EventBucketAway     = "bucket.away"
	EventBucketBack     = "bucket.back"
	EventWritesRefused  = "writes.refused"
	EventWritesAccepted = "writes.accepted"

	// EventBucketDamaged and EventBucketHealed: an object that the document needs is
	// missing or damaged, and a new checkpoint has replaced it.
	EventBucketDamaged = "bucket.damaged"
	EventBucketHealed  = "bucket.healed"

	// EventGap says that events before the next one are not held any more by
	// the node that was asked. It has no id.
	EventGap = "gap"
)
