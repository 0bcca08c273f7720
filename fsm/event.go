package fsm

// Event is one effect of an entry. Events stand in the order in which the effects
// happened.
type Event struct {
	Kind EventKind
	Job  *Job   // after the change; nil for the kinds that have no job
	From Status // of the job before the change; 0 for a new job
	// Removed is set if the job left the state; Job is its last form.
	Removed bool
	// Name is the worker, type, schedule, batch or node that an event of one of the
	// other kinds concerns.
	Name string
	// Text is the text of an announcement.
	Text string
	// Actor is the identity whose request made the change. "" if the machine made it by
	// itself, as for timers, schedules and dependencies, or if the entry names none.
	Actor string
}

// ActorMax bounds the bytes of an actor.
const ActorMax = 128

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. The kinds up to JobRemoved, and CronFired, have a job. The job
// of CronFired is the one that the schedule enqueued.
const (
	// JobChanged is a change of the status, given by From, Job.Status and AttemptEnd.
	// If both are Completed, only the result changed.
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
	BucketDamaged
	BucketHealed
	WorkerSet // it is quiet, or gets jobs again; Text says which
)
