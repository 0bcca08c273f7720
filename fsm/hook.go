package fsm

import (
	"errors"
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// This file has the mutations about hooks, and the changes that make events for them.

// stamp returns what the events of the present mutation have in common.
func (m *Machine) stamp() outbox.Stamp {
	return outbox.Stamp{Term: m.meta.LSN.Term, Index: m.meta.LSN.Index, Now: m.meta.Now, Actor: m.actor}
}

// tell puts an event into the outboxes of all hooks that want it.
func (m *Machine) tell(e outbox.Event) { m.hooks.Tell(e, m.stamp()) }

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

func (m *Machine) testHook(op *fsmpb.TestHook) Result {
	number, err := m.hooks.Test(op.Name, m.stamp())
	return hookResult(uint64(number), err)
}

// tellJob puts a change of a job's status into the outboxes of the hooks.
func (m *Machine) tellJob(from Status, j *Job) {
	e := outbox.Event{Subject: j.Type, JobID: j.ID, Attempts: j.Attempts, Text: j.Execution().LastError}
	switch j.Status {
	case Completed:
		e.Kind, e.Text = outbox.JobCompleted, ""
	case Dead:
		e.Kind = outbox.JobDead
	case Cancelled:
		e.Kind = outbox.JobCancelled
	default:
		if from != InProgress || j.Status == InProgress || j.AttemptEnd != EndFail && j.AttemptEnd != EndLease && j.AttemptEnd != EndTimeout {
			return
		}
		e.Kind = outbox.JobFailed
	}
	m.tell(e)
}

// tellAnnounced puts a condition that the leader announced into the outboxes of the hooks.
func (m *Machine) tellAnnounced(k AnnounceKind, text string) {
	e := outbox.Event{Subject: m.meta.Broker.Node, Text: text}
	switch k {
	case AnnounceBucketAway, AnnounceBucketBack:
		e.Kind, e.Resolved = outbox.BucketAway, k == AnnounceBucketBack
	case AnnounceWritesRefused, AnnounceWritesAccepted:
		e.Kind, e.Resolved = outbox.WritesRefused, k == AnnounceWritesAccepted
	case AnnounceBucketDamaged, AnnounceBucketHealed:
		e.Kind, e.Resolved = outbox.BucketDamaged, k == AnnounceBucketHealed
	}
	m.tell(e)
}

// stateChecked reports nodes with a state other than the majority's to the hooks. It changes
// nothing else.
func (m *Machine) stateChecked(op *fsmpb.StateChecked) Result {
	if len(op.Diverged) > 0 {
		m.tell(outbox.Event{
			Kind: outbox.Diverged, Subject: strings.Join(op.Diverged, " "), Text: "the state of these nodes differs from that of most",
		})
	}
	return Result{}
}
