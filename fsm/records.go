package fsm

import (
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// This file has the records of the state other than jobs. All of them are immutable, like Job.

// These records are kept as a snapshot has them.
type (
	ClaimRecord   = fsmpb.ClaimRecord   // the answer to a claim
	Cron          = fsmpb.Cron          // a schedule
	CronRun       = fsmpb.CronRun       // a fire of a schedule
	JobBatch      = fsmpb.JobBatch      // counts jobs that belong together
	Worker        = fsmpb.Worker        // an entry of the worker registry
	QueueSettings = fsmpb.QueueSettings // the settings of a type
	Turn          = fsmpb.Turn          // a group's place in the rotation of its type
	Limit         = fsmpb.Limit         // the rule of a pattern, and what is used of a key
	LimitRule     = fsmpb.LimitRule     // how many jobs may run and start under a key
	ParkedLane    = fsmpb.ParkedLane    // jobs that wait under a key
	Hold          = fsmpb.Hold          // a unique-key reservation for a period
	Artefact      = fsmpb.Artefact      // a file of a job, whose bytes are an object in the bucket
	RequestRecord = fsmpb.RequestRecord // remembers the answer to a mutation with a request key
)

// Unset is the value of a setting that takes the default, where 0 has a meaning.
const Unset = -1

// OverlapPolicy is the behaviour of a schedule while its last job has not ended.
type OverlapPolicy uint8

// The policies. Snapshots have these numbers: they must not change.
const (
	OverlapAllow OverlapPolicy = iota
	OverlapSkip

	numOverlaps = iota
)

// MissedPolicy is the behaviour of a schedule for a time that passed more than a minute
// ago without a leader to fire it.
type MissedPolicy uint8

// The policies. Snapshots have these numbers: they must not change.
const (
	MissedSkip MissedPolicy = iota
	MissedOne               // one fire for all missed times
	MissedAll               // a fire for each missed time, which the leader proposes

	numMissed = iota
)

var (
	overlapNames = [numOverlaps]string{"allow", "skip"}
	missedNames  = [numMissed]string{"skip", "one", "all"}
)

// String returns the policy's name as used on the wire.
func (p OverlapPolicy) String() string { return job.NameOf(overlapNames[:], p) }

// String returns the policy's name as used on the wire.
func (p MissedPolicy) String() string { return job.NameOf(missedNames[:], p) }

// CallbackOn is the condition for enqueueing a batch's callback.
type CallbackOn uint8

// The choices. Snapshots have these numbers: they must not change.
const (
	CallbackEnded     CallbackOn = iota // all jobs have ended
	CallbackCompleted                   // all jobs have completed
	CallbackFailed                      // the first job has died

	numCallbacks = iota
)

var callbackNames = [numCallbacks]string{"ended", "completed", "failed"}

// String returns the choice's name as used on the wire.
func (c CallbackOn) String() string { return job.NameOf(callbackNames[:], c) }

// Place is the position at which a Change by filter stopped. The zero Place is the end.
type Place struct {
	Status Status
	Seq    uint64
}
