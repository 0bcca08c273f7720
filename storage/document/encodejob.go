package document

import "osqueue/fsm"

// namelessWorker returns the worker of a job in status s that has no workerId.
func namelessWorker(s fsm.Status) string {
	switch s {
	case fsm.InProgress, fsm.Completed, fsm.Dead:
		return fsm.Anonymous
	default:
		return ""
	}
}

func (a *appender) jobs(name string, v *fsm.View, statuses []fsm.Status) {
	if a.full() {
		return
	}
	a.key(name)
	a.open('[')
	each := func(j *fsm.Job) bool {
		a.next()
		a.job(j)
		return !a.full()
	}
	if len(statuses) == 1 {
		v.Jobs(statuses[0], 0, each)
	} else {
		v.Merged(statuses, 0, each)
	}
	a.close(']')
}

// job appends the fields of the legacy broker in its order, then those of this package.
func (a *appender) job(j *fsm.Job) {
	a.open('{')
	a.text("id", j.ID)
	a.text("status", j.Status.String())
	a.value("payload", j.Payload())
	a.optional("type", j.Type)
	a.plain("createdAt", j.CreatedAt)
	a.plain("attempts", int64(j.Attempts))
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		a.plain("maxAttempts", int64(j.MaxAttempts))
	}
	if j.Execution().Worker != namelessWorker(j.Status) {
		a.text("workerId", j.Execution().Worker)
	}
	running := j.Status == fsm.InProgress
	if running || j.Execution().Heartbeat != 0 {
		a.plain("heartbeat", j.Execution().Heartbeat)
	}
	a.unsigned("seq", j.Seq)
	a.nonzero("priority", int64(j.Priority))
	a.nonzero("runAt", j.RunAt)
	if j.Execution().Token != 0 {
		a.unsigned("token", j.Execution().Token)
	}
	if running || j.Execution().ClaimedAt != 0 {
		a.integer("claimedAt", j.Execution().ClaimedAt)
	}
	a.nonzero("leaseMs", j.Execution().LeaseMs)
	if running || j.Execution().HeldMs != 0 {
		a.integer("heldMs", j.Execution().HeldMs)
	}
	a.ending(j)
	if j.Opt != nil {
		a.options(j.Opt)
	}
	if j.Det != nil {
		a.details(j.Det)
		a.jobExtra(j.Det)
	}
	a.close('}')
}

// ending appends the outcome of the job's last attempt.
func (a *appender) ending(j *fsm.Job) {
	a.end("attemptEnd", j.AttemptEnd)
	a.nonzero("finishedAt", j.Execution().FinishedAt)
	a.value("result", j.Execution().Result)
	a.optional("lastError", j.Execution().LastError)
	a.natural("claimInstance", j.Execution().Instance)
	a.flag("unconfirmed", j.Execution().Unconfirmed)
}
