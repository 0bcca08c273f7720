package model

import (
	"slices"

	"osqueue/tests/history"
)

// The statuses that checkers name.
const (
	scheduledStatus = "scheduled"
	waitingStatus   = "unclaimed"
	runningStatus   = "in_progress"
	blockedStatus   = "blocked"
	completed       = "completed"
	dead            = "dead"
	cancelled       = "cancelled"
	expiredStatus   = "expired"
)

func hasEnded(status string) bool {
	return status == completed || status == dead || status == cancelled || status == expiredStatus
}

// kept checks that the end state holds the acknowledged jobs and no others, that every
// acknowledged write is in the log, and that no refused one is.
func kept(f *facts, v *Verdict) {
	if f.loses {
		v.void("a fault has lost what was not in the bucket: see Safe")
		return
	}
	f.keptInLog(v)
	f.keptPayloads(v)
	if len(f.final) == 0 {
		if v.Checked == 0 {
			v.void("the jobs at the end were not read")
		}
		return
	}
	for _, op := range f.ops {
		if op.Outcome != history.OK || op.Job == "" {
			continue
		}
		f.keptOp(v, op)
	}
	given := f.payloads()
	for i := range f.h.Finals {
		job := &f.h.Finals[i]
		v.Checked++
		e := f.enqueue[job.Job]
		switch {
		case f.ofSchedule[job.Job]:
		case e == nil:
			v.broken(nil, "job %s was never submitted", job.Job)
		case e.Outcome == history.Refused:
			v.broken([]int{e.ID}, "job %s is there, and its enqueue was refused", job.Job)
		case job.Payload != "" && !gave(given[job.Job], job.Payload):
			v.broken([]int{e.ID}, "job %s has payload %s, and was enqueued with %s", job.Job, job.Payload, e.Payload)
		}
	}
}

// gave reports whether one of the operations that were not refused gives a job the payload.
func gave(ops []*history.Op, payload string) bool {
	return slices.ContainsFunc(ops, func(op *history.Op) bool { return op.Payload == payload && op.Outcome != history.Refused })
}

func (f *facts) keptOp(v *Verdict, op *history.Op) {
	job := f.final[op.Job]
	switch op.Kind {
	case history.Enqueue:
		v.Checked++
		if job == nil {
			v.broken([]int{op.ID}, "job %s was acknowledged and is lost", op.Job)
		}
	case history.Complete:
		v.Checked++
		switch {
		case job == nil:
			v.broken([]int{op.ID}, "job %s was acknowledged as completed and is lost", op.Job)
		case job.Status != completed:
			v.broken([]int{op.ID}, "job %s was acknowledged as completed and is %s", op.Job, job.Status)
		case job.Token == op.Token && job.Result != op.Result:
			v.broken([]int{op.ID}, "job %s has result %s, and was completed with %s", op.Job, job.Result, op.Result)
		case job.Token != op.Token:
			v.broken([]int{op.ID}, "job %s was completed under token %d, and ended under %d", op.Job, op.Token, job.Token)
		}
	case history.Cancel:
		if op.Status == cancelled && job != nil && job.Status != cancelled {
			v.broken([]int{op.ID}, "job %s was acknowledged as cancelled and is %s", op.Job, job.Status)
		}
	}
}

// keptInLog holds answers against the log.
func (f *facts) keptInLog(v *Verdict) {
	if !f.whole {
		return
	}
	for _, op := range f.ops {
		if op.Request == "" {
			continue
		}
		l := f.took[op.Request]
		switch {
		case op.Outcome == history.Refused && l != nil:
			v.broken([]int{op.ID}, "%s %d was refused for certain, and took effect at %s", op.Kind, op.ID, l.LSN)
		case op.Outcome == history.OK && l == nil && mustBeInLog(op):
			v.broken([]int{op.ID}, "%s %d was acknowledged, and the log has no effect of it", op.Kind, op.ID)
		case op.Outcome == history.OK:
			v.Checked++
		}
	}
}

// mustBeInLog: such an answer is one to an effect, and not to an earlier one's.
func mustBeInLog(op *history.Op) bool {
	switch op.Kind {
	case history.Enqueue, history.Edit, history.SetLimit, history.Throttle, history.Signal, history.Attach, history.Schedule, history.SetType:
		return true
	case history.Step: // else the job had it
		return op.Kept == op.Value
	case history.Claim:
		return len(op.Jobs) > 0
	}
	return false
}

// keptPayloads: what is handed out is what was enqueued, or what an edit made of it.
func (f *facts) keptPayloads(v *Verdict) {
	given := f.payloads()
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			e := f.enqueue[held.Job]
			switch {
			case f.ofSchedule[held.Job]:
			case e == nil:
				v.broken([]int{op.ID}, "job %s was handed out and never submitted", held.Job)
			case e.Outcome == history.Refused:
				v.broken([]int{e.ID, op.ID}, "job %s was handed out, and its enqueue was refused", held.Job)
			case held.Payload != "" && !gave(given[held.Job], held.Payload):
				v.broken([]int{e.ID, op.ID}, "job %s was handed out with payload %s, and was enqueued with %s",
					held.Job, held.Payload, e.Payload)
			}
		}
	}
}
