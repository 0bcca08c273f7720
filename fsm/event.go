package fsm

// Event is something that an entry made happen, in the order of happening.
type Event struct {
	Kind EventKind
	Job  *Job   // after the change; nil for the kinds that have no job
	From Status // of the job before the change; 0 for a new job
	// Removed: the job left the state; Job is its last form.
	Removed bool
	// Name is the worker, type, schedule, batch or node that the other kinds
	// are about.
	Name string
	// Text is what an announcement says.
	Text string
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events. Those up to JobRemoved have a job; the others have not,
// but for CronFired, whose job is the one that it enqueued.
const (
	// Its status did; From, the status and AttemptEnd tell how. From completed to
	// completed it is the result that did.
	JobChanged   EventKind = iota
	JobProgress            // its worker reported progress
	JobCancelled           // its cancellation was requested while it runs
	JobRemoved             // deleted, or past its retention
	BrokerRegistered
	WorkerRegistered
	WorkerDied
	QueueSet
	CronPut
	CronDeleted
	CronFired
	CronSkipped
	BatchEnded
	BucketAway
	BucketBack
	WritesRefused
	WritesAccepted
)
