package fsm

import (
	"slices"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/usage"
)

// editJob changes fields of a job that waits, or of one that is dead, cancelled or expired and retried with them.
func (e *entry) editJob(op *fsmpb.EditJob) Result {
	j := e.ids.Get(op.Id)
	if j == nil || op.Seq != 0 && j.Seq != op.Seq {
		return Result{Code: NotFound}
	}
	edited, revives := editedBy(&e.usage, j, op), op.Retry && j.Status.Ended() && j.Status != Completed
	code := OK
	switch {
	case j.Status == InProgress || j.Status.Ended() && !revives:
		code = WrongStatus
	case edited == nil && !revives:
		code = Duplicate
	case op.Revision != nil && *op.Revision != j.Details().Revision:
		code = Revised
	case edited != nil:
		code = mayGrow(j, edited, op.Quota, e.quotas(j.Type), e.usage.Open(op.Quota.GetAccount()).Bytes)
	}
	if code == OK && revives {
		j, code = e.revive(j, false)
		edited = editedBy(&e.usage, j, op)
	}
	if code != OK || edited == nil {
		return Result{Code: code, Jobs: one(j), Count: j.Details().Revision}
	}
	e.storeEdited(j, edited)
	return Result{Jobs: one(edited), Count: edited.Details().Revision}
}

// editedBy returns a copy of a job with the fields of an edit, or nil if it changes none.
func editedBy(u *usage.Table, old *Job, op *fsmpb.EditJob) *Job {
	j := *old
	setTo(&j.Priority, op.Priority)
	setTo(&j.MaxAttempts, op.MaxAttempts)
	setTo(&j.RunAt, op.RunAtMs)
	if op.Payload != nil {
		j.SetPayload(op.Payload)
	}
	o := *old.Options()
	if op.Tags != nil {
		o.Tags = job.CloneStrings(job.Distinct(op.Tags.Tags))
	}
	if op.Limits != nil {
		o.Limits = job.CloneStrings(op.Limits.Limits)
	}
	if !slices.Equal(o.Tags, old.Options().Tags) || !slices.Equal(o.Limits, old.Options().Limits) {
		if j.Opt = &o; o.Zero() {
			j.Opt = nil
		}
		u.Share(&j)
	}
	if j == *old {
		return nil
	}
	if op.Payload != nil {
		j.Hold(old.ID, op.Payload)
	}
	return &j
}

// setTo sets a field to value if there is one.
func setTo[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// mayGrow checks the quotas of bytes for an edited job. caller has the quota of the caller, which counts if the job is one of its
// account; used are the bytes of that.
func mayGrow(old, j *Job, caller *fsmpb.Quota, limits [2]quota, used int64) Code {
	more := j.ProducedSize() - old.ProducedSize()
	var own quota
	if caller.GetAccount() == j.Options().Account {
		own = quota{bytesMax: caller.GetMaxBytes(), bytes: used}
	}
	payload := j.PayloadLen()
	switch {
	case more <= 0:
		return OK
	case payload > old.PayloadLen() && (limits[0].tooLarge(payload) || limits[1].tooLarge(payload)):
		return PayloadTooLarge
	case limits[0].tooFull(more) || limits[1].tooFull(more):
		return TooManyBytes
	case own.tooFull(more):
		return TooManyTokenBytes
	}
	return OK
}

// storeEdited stores an edited copy of a waiting job.
func (e *entry) storeEdited(old, j *Job) {
	if j.Status != Blocked {
		j.Status = j.ReadyStatus(e.meta.NowMs)
	}
	j.ChangeDetails(func(d *Details) {
		if d.Revision == 0 {
			made := job.ContentOf(old)
			d.Content = string(made[:])
		}
		d.Revision++
	})
	if j.Status != old.Status {
		e.put(old, j)
	} else {
		e.reindex(old, j)
	}
	e.events = append(e.events, Event{Kind: JobEdited, Job: j, From: j.Status})
}
