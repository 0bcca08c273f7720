package fsm

import (
	"errors"
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// This file has the mutations about hooks, and the changes that make events for them.

// stamp returns what the events of the present mutation have in common.
func (e *entry) stamp() outbox.Stamp {
	return outbox.Stamp{Term: e.meta.LSN.Term, Index: e.meta.LSN.Index, Now: e.meta.Now, Actor: e.actor}
}

// tell puts an event into the outboxes of all hooks that want it.
func (e *entry) tell(news outbox.Event) { e.hooks.Tell(news, e.stamp()) }

// hookResult returns the answer to a mutation about hooks.
func hookResult(count uint64, err error) Result {
	switch {
	case err == nil:
		return Result{Count: count}
	case errors.Is(err, outbox.ErrNoHook):
		return Result{Code: NotFound}
	case errors.Is(err, outbox.ErrNoNews):
		return Result{Code: Duplicate}
	}
	return Result{Code: TooManyHooks}
}

// jobEvent returns the event for hooks of a change of a job's status; ok is false if there is none.
func jobEvent(from Status, j *Job) (e outbox.Event, ok bool) {
	e = outbox.Event{Subject: j.Type, JobID: j.ID, Attempts: j.Attempts, Text: j.Execution().LastError}
	switch j.Status {
	case Completed:
		e.Kind, e.Text = outbox.JobCompleted, ""
	case Dead:
		e.Kind = outbox.JobDead
	case Cancelled:
		e.Kind = outbox.JobCancelled
	default:
		e.Kind = outbox.JobFailed
		return e, from == InProgress && j.Status != InProgress && (j.AttemptEnd == EndFail || j.AttemptEnd == EndLease || j.AttemptEnd == EndTimeout)
	}
	return e, true
}

// announcedEvent returns the event for hooks of a condition that the leader announced.
func announcedEvent(k AnnounceKind, node, text string) outbox.Event {
	e := outbox.Event{Subject: node, Text: text, Resolved: k != k.begin()}
	switch k.begin() {
	case AnnounceBucketAway:
		e.Kind = outbox.BucketAway
	case AnnounceWritesRefused:
		e.Kind = outbox.WritesRefused
	case AnnounceBucketDamaged:
		e.Kind = outbox.BucketDamaged
	}
	return e
}

// stateChecked reports nodes with a state other than the majority's to the hooks. It changes
// nothing else.
func (e *entry) stateChecked(op *fsmpb.StateChecked) Result {
	if len(op.Diverged) > 0 {
		e.tell(outbox.Event{
			Kind: outbox.Diverged, Subject: strings.Join(op.Diverged, " "), Text: "the state of these nodes differs from that of most",
		})
	}
	return Result{}
}
