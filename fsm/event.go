package fsm

import "osqueue/fsm/outbox"

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
const ActorMax = outbox.ActorMax

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. The kinds up to JobSignalled, and CronFired, have a job. The job
// of CronFired is the one that the schedule enqueued.
const (
	// JobChanged is a change of the status, given by From, Job.Status and AttemptEnd.
	// If both are Completed, only the result changed.
	JobChanged   EventKind = iota
	JobProgress            // its worker reported progress
	JobCancelled           // its cancellation was requested while it runs
	JobRemoved             // deleted, or past its retention
	JobEdited              // a request changed its fields
	JobSignalled           // it was sent a signal; Text is the name
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
	LimitSet  // the rule of a pattern was changed
)

// AnnounceKind is the condition that the leader announces.
type AnnounceKind uint8

// The kinds of announcements. The order is that of the log and must not change;
// 0 is none.
const (
	AnnounceBucketAway     AnnounceKind = iota + 1 // flushes fail
	AnnounceBucketBack                             // flushes succeed again
	AnnounceWritesRefused                          // the bucket is too far behind
	AnnounceWritesAccepted                         // the bucket has caught up
	AnnounceBucketDamaged                          // an object that the document needs is missing or damaged
	AnnounceBucketHealed                           // a new checkpoint has replaced the damaged objects

	numAnnounces = iota + 1
)

var announced = [numAnnounces]EventKind{
	AnnounceBucketAway:     BucketAway,
	AnnounceBucketBack:     BucketBack,
	AnnounceWritesRefused:  WritesRefused,
	AnnounceWritesAccepted: WritesAccepted,
	AnnounceBucketDamaged:  BucketDamaged,
	AnnounceBucketHealed:   BucketHealed,
}

// begin returns the condition that k announces, or whose end it announces.
func (k AnnounceKind) begin() AnnounceKind { return k - (k+1)%2 }

// Announces reports whether a condition, such as AnnounceBucketAway, was announced and its end was
// not. A new leader announces the end of what an earlier one has announced.
func Announces(m *Meta, k AnnounceKind) bool { return m.Announced&(1<<k) != 0 }

// noteAnnounced records an announcement in the state.
func noteAnnounced(m *Meta, k AnnounceKind) {
	if begin := k.begin(); k == begin {
		m.Announced |= 1 << begin
	} else {
		m.Announced &^= 1 << begin
	}
}

// announceMax is the length, in bytes, at which the text of an announcement is cut.
const announceMax = 256
