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
	return outbox.Stamp{Term: e.meta.Term, Index: e.meta.Index, Now: e.meta.NowMs, Actor: e.actor}
}

// tell puts an event into the outboxes of all hooks that want it.
func (e *entry) tell(news *outbox.Event) { e.hooks.Tell(news, e.stamp()) }

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

// jobEvent returns the event for hooks of a change of a job's status, or nil if there is none.
func jobEvent(from Status, j *Job) *outbox.Event {
	kind, text := outbox.JobFailed, j.Execution().LastError
	switch j.Status {
	case Completed:
		kind, text = outbox.JobCompleted, ""
	case Dead:
		kind = outbox.JobDead
	case Cancelled:
		kind = outbox.JobCancelled
	case Expired:
		kind = outbox.JobExpired
	default:
		if from != InProgress || j.Status == InProgress || j.AttemptEnd != EndFail && j.AttemptEnd != EndLease && j.AttemptEnd != EndTimeout {
			return nil
		}
	}
	return aboutJob(kind, j, text)
}

func aboutJob(kind outbox.Kind, j *Job, text string) *outbox.Event {
	e := outbox.News(kind, j.Type, text)
	e.JobId, e.Attempts = j.ID, j.Attempts
	return e
}

// announcedEvent returns the event for hooks of a condition that the leader announced.
func announcedEvent(k AnnounceKind, node, text string) *outbox.Event {
	var kind outbox.Kind
	switch k.begin() {
	case AnnounceBucketAway:
		kind = outbox.BucketAway
	case AnnounceWritesRefused:
		kind = outbox.WritesRefused
	case AnnounceBucketDamaged:
		kind = outbox.BucketDamaged
	}
	e := outbox.News(kind, node, text)
	e.Resolved = k != k.begin()
	return e
}

// stateChecked reports nodes with a state other than the majority's to the hooks. It changes
// nothing else.
func (e *entry) stateChecked(op *fsmpb.StateChecked) Result {
	if len(op.Diverged) > 0 {
		e.tell(outbox.News(outbox.Diverged, strings.Join(op.Diverged, " "), "the state of these nodes differs from that of most"))
	}
	return Result{}
}
