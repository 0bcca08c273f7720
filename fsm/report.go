package fsm

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/onerror"
)

// held returns the job that a worker reports on. The code is OK if the worker holds the
// lease and the claim has no other owner, and Duplicate if the attempt of this lease has ended in the same way already.
func (m *Machine) held(worker string, owner uint64, l *fsmpb.Lease, end End) (*Job, Code) {
	j := m.ids.Get(l.JobId)
	switch {
	case j == nil:
		if j = m.requests.EndedAlready(l, end); j != nil {
			return j, Duplicate
		}
		return nil, NotFound
	case l.Token == 0 && j.Status != InProgress:
		return j, NotRunning
	case l.Token == 0 && j.Execution().Worker != worker:
		return j, WrongWorker
	case l.Token != 0 && l.Token != j.Execution().Token:
		return j, StaleToken
	case j.Status == InProgress && !owned(j, owner):
		return j, WrongWorker
	case j.Status == InProgress:
		return j, OK
	case j.AttemptEnd == end && end != NoEnd:
		return j, Duplicate
	case j.AttemptEnd == EndLease:
		return j, LeaseExpired
	case j.AttemptEnd == EndTimeout:
		return j, TimedOut
	}
	return j, NotRunning
}

// heartbeat extends leases; each item has its own code.
func (e *entry) heartbeat(op *fsmpb.Heartbeat) Result {
	registry{e}.seen(op.Worker)
	res := Result{Jobs: make([]*Job, len(op.Leases)), Codes: make([]Code, len(op.Leases))}
	for i, l := range op.Leases {
		old, code := e.held(op.Worker, op.Owner, l, NoEnd)
		res.Jobs[i], res.Codes[i] = old, code
		if code == OK && (old.Execution().Heartbeat < e.meta.NowMs || old.Execution().Unconfirmed || l.Progress != nil) {
			res.Jobs[i] = e.beat(old, l.Progress)
		}
	}
	return res
}

// beat extends the lease of a job, and stores its progress if the report has any.
func (e *entry) beat(old *Job, p *fsmpb.Progress) *Job {
	j := old.Change()
	j.Exec.Heartbeat = max(j.Exec.Heartbeat, e.meta.NowMs)
	j.Exec.Unconfirmed = false
	if p != nil {
		j.ChangeDetails(func(d *Details) {
			d.Progress = Progress{Percent: uint8(min(p.Percent, 100)), Message: strings.Clone(p.Message)}
			d.ProgressAt = e.meta.NowMs
		})
	}
	e.put(old, j)
	if p != nil {
		e.events = append(e.events, Event{Kind: JobProgress, Job: j, From: j.Status})
	}
	return j
}

func (e *entry) complete(op *fsmpb.Complete) Result {
	registry{e}.seen(op.Worker)
	old, code := e.held(op.Worker, op.Owner, op.Lease, EndOK)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	j := old.Change()
	j.AttemptEnd = EndOK
	j.Exec.Result = bytes.Clone(op.Result)
	if op.Log != j.Details().Log {
		j.ChangeDetails(func(d *Details) { d.Log = strings.Clone(op.Log) })
	}
	e.end(old, j, Completed)
	return Result{Jobs: one(j)}
}

// forceComplete completes a job in any status. The end of its last attempt stays
// unchanged, unless the job is running.
func (e *entry) forceComplete(op *fsmpb.ForceComplete) Result {
	old := e.ids.Get(op.JobId)
	if old == nil || op.Seq != 0 && old.Seq != op.Seq {
		return Result{Code: NotFound}
	}
	j := old.Change()
	j.Exec.Result = bytes.Clone(op.Result)
	switch old.Status {
	case Completed:
		j.Exec.FinishedAt = e.meta.NowMs
		e.putAnew(old, j)
		return Result{Jobs: one(j)}
	case InProgress:
		j.AttemptEnd = EndOK
	case Blocked:
		j.ChangeDetails(func(d *Details) { d.Waits, d.InLine = nil, false })
	}
	e.end(old, j, Completed)
	return Result{Jobs: one(j)}
}

func (e *entry) fail(op *fsmpb.Fail) Result {
	registry{e}.seen(op.Worker)
	old, code := e.held(op.Worker, op.Owner, op.Lease, EndFail)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	permanent, delayMs := op.Permanent, op.RetryDelayMs
	if r := onerror.Of(old.Options().OnError, op.Class); r != nil && !permanent && delayMs == nil {
		permanent, delayMs = r.Dead, &r.DelayMs
	}
	return Result{Jobs: one(e.endBadly(old, EndFail, strings.Clone(op.Error), strings.Clone(op.Class), permanent, delayMs))}
}

// release returns the job to the queue, at once or after a delay; the attempt does not count.
func (e *entry) release(op *fsmpb.Release) Result {
	registry{e}.seen(op.Worker)
	old, code := e.held(op.Worker, op.Owner, op.Lease, EndReleased)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	j := givenUp(old, EndReleased, op.DelayMs, e.meta.NowMs)
	e.put(old, j)
	return Result{Jobs: one(j)}
}

// givenUp returns a copy of a running job whose worker has ended the attempt, which does not count. It is available after a
// delay, or cancelled if that was requested.
func givenUp(old *Job, end End, delay, now int64) *Job {
	j := old.Change()
	j.AttemptEnd = end
	j.Attempts = max(j.Attempts-1, 0) // a restored job may run without a counted attempt
	if old.Details().CancelAt != 0 {
		j.Exec.LastError = ""
		j.Status, j.Exec.FinishedAt = Cancelled, now
		return j
	}
	j.Status = Unclaimed
	j.Exec.Worker, j.Exec.Heartbeat = "", 0
	if delay > 0 {
		j.Status, j.RunAt = Scheduled, job.Later(now, delay)
	}
	return j
}

// lose ends an attempt that its worker did not end: the lease expired, the timeout did, or
// the worker is dead.
func (e *entry) lose(old *Job, end End, reason string) {
	if old.Execution().Unconfirmed && old.Details().CancelAt == 0 {
		e.giveBack(old, end, reason)
		return
	}
	e.endBadly(old, end, reason, "", false, nil)
}

// giveBackMax bounds how often a job returns to the queue without the attempt.
const giveBackMax = 3

// giveBack returns a job to the queue whose last attempt its worker never started: a frozen
// worker with a claim that waits is granted jobs, too. The attempt does not count.
func (e *entry) giveBack(old *Job, end End, reason string) {
	j := old.Change()
	j.AttemptEnd, j.Exec.LastError = end, reason
	j.Attempts = max(j.Attempts-1, 0)
	j.ChangeDetails(func(d *Details) { d.GivenBack++ })
	e.requeue(old, j, 0)
}

// endBadly ends an attempt as failed. If the job has attempts left, and the failure is not
// permanent, it is tried again after delayMs, or after its backoff if delayMs is nil.
func (e *entry) endBadly(old *Job, end End, reason, class string, permanent bool, delayMs *int64) *Job {
	j := attempted(old, end, reason, class, e.meta.NowMs)
	switch {
	case old.Details().CancelAt != 0:
		e.end(old, j, Cancelled)
	case permanent || e.types.exhausted(old):
		e.end(old, j, Dead) // it is kept: a queue must not lose jobs silently
	case delayMs != nil:
		e.requeue(old, j, *delayMs)
	default:
		e.requeue(old, j, e.types.backoff(old, e.random))
	}
	return j
}

// backoff returns how long, in ms, a failed job waits for its next attempt, by the job's
// rule or else its type's.
func (t *types) backoff(j *Job, random uint64) int64 {
	b := j.Options().Backoff
	if b.Kind == backoff.Unset {
		s := t.queues[j.Type].settings
		if s == nil {
			return 0
		}
		b = backoff.FromPB(s.Backoff)
	}
	return b.Wait(j.Attempts, random, j.Execution().Token)
}

// The limits of the history of a job: attempts, and bytes of each error.
const (
	historyMax      = 20
	historyErrorMax = 1024
)

// attempted returns a copy of old whose history has the attempt that ended now.
func attempted(old *Job, end End, reason, class string, now int64) *Job {
	j := old.Change()
	j.AttemptEnd, j.Exec.LastError = end, reason
	j.ChangeDetails(func(d *Details) {
		past := d.History[max(0, len(d.History)-historyMax+1):]
		d.History = append(append(make([]Attempt, 0, len(past)+1), past...), Attempt{
			Number: old.Attempts, StartedAt: j.Exec.ClaimedAt, EndedAt: now,
			Worker: j.Exec.Worker, Error: cut(reason, historyErrorMax), End: end, Class: class,
		})
	})
	return j
}

// cut returns the beginning of s, at most n bytes, which ends with a whole rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// exhausted reports whether the job has no attempts left.
func (t *types) exhausted(j *Job) bool {
	limit := int64(j.MaxAttempts)
	if j.MaxAttempts == MaxAttemptsUnset {
		limit = int64(t.meta.Settings.MaxAttempts)
		if s := t.queues[j.Type].settings; s != nil && s.MaxAttempts != Unset {
			limit = s.MaxAttempts
		}
	}
	return int64(j.Attempts) >= limit
}

// requeue makes j, a changed copy of old, available again at its old place, after the
// delay.
func (e *entry) requeue(old, j *Job, delayMs int64) {
	j.Status = Unclaimed
	j.Exec.Worker, j.Exec.Heartbeat = "", 0
	if delayMs > 0 {
		j.Status, j.RunAt = Scheduled, job.Later(e.meta.NowMs, delayMs)
	}
	e.put(old, j)
}

// end makes j, a changed copy of old, completed, dead or cancelled.
func (e *entry) end(old, j *Job, s Status) {
	j.Status, j.Exec.FinishedAt = s, e.meta.NowMs
	e.put(old, j)
}

func one(j *Job) []*Job {
	if j == nil {
		return nil
	}
	return []*Job{j}
}
