package fsm

import (
	"strings"

	"osqueue/fsm/fsmpb"
)

// held finds the job that a worker reports on. OK means it holds the lease;
// Duplicate that its attempt has ended this way already, by this very lease.
func (m *Machine) held(worker string, l *fsmpb.Lease, end End) (*Job, Code) {
	j := m.ids[l.JobId]
	switch {
	case j == nil:
		return nil, NotFound
	case l.Token == 0:
		return j, heldByName(j, worker)
	case l.Token != j.Token:
		return j, StaleToken
	case j.Status == InProgress:
		return j, OK
	case j.AttemptEnd == end && end != NoEnd:
		return j, Duplicate
	case j.AttemptEnd == EndLease:
		return j, LeaseExpired
	}
	return j, NotRunning
}

func heldByName(j *Job, worker string) Code {
	if j.Status != InProgress {
		return NotRunning
	}
	if j.Worker != worker {
		return WrongWorker
	}
	return OK
}

// heartbeat renews leases; each item has its own code.
func (m *Machine) heartbeat(op *fsmpb.Heartbeat) Result {
	m.seen(op.Worker)
	res := Result{Jobs: make([]*Job, len(op.Leases)), Codes: make([]Code, len(op.Leases))}
	for i, l := range op.Leases {
		old, code := m.held(op.Worker, l, NoEnd)
		res.Jobs[i], res.Codes[i] = old, code
		if code != OK || old.Heartbeat >= m.meta.Now {
			continue
		}
		j := *old
		j.Heartbeat = m.meta.Now
		m.put(old, &j)
		res.Jobs[i] = &j
	}
	return res
}

func (m *Machine) complete(op *fsmpb.Complete) Result {
	m.seen(op.Worker)
	old, code := m.held(op.Worker, op.Lease, EndOK)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	j := *old
	j.Status, j.AttemptEnd = Completed, EndOK
	j.Result = cloneBytes(op.Result)
	j.FinishedAt = m.meta.Now
	m.meta.CompletedTotal++
	m.put(old, &j)
	m.retire()
	return Result{Jobs: one(&j)}
}

func (m *Machine) fail(op *fsmpb.Fail) Result {
	m.seen(op.Worker)
	old, code := m.held(op.Worker, op.Lease, EndFail)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	reason := strings.Clone(op.Error)
	if op.Permanent {
		return Result{Jobs: one(m.bury(old, EndFail, reason))}
	}
	return Result{Jobs: one(m.retryOrBury(old, EndFail, reason, op.GetRetryDelayMs()))}
}

// release gives the job back; the attempt does not count.
func (m *Machine) release(op *fsmpb.Release) Result {
	m.seen(op.Worker)
	old, code := m.held(op.Worker, op.Lease, EndGiven)
	if code != OK {
		return Result{Code: code, Jobs: one(old)}
	}
	j := giveBack(old, EndGiven)
	j.Attempts = max(j.Attempts-1, 0) // a restored job may run without a counted attempt
	m.put(old, j)
	return Result{Jobs: one(j)}
}

// expire ends an attempt whose worker has gone silent.
func (m *Machine) expire(old *Job, reason string) {
	m.retryOrBury(old, EndLease, reason, 0)
}

func (m *Machine) retryOrBury(old *Job, end End, reason string, delayMs int64) *Job {
	if old.Attempts >= old.maxAttempts(&m.meta.Settings) {
		return m.bury(old, end, reason)
	}
	j := giveBack(old, end)
	j.LastError = reason
	if delayMs > 0 {
		j.Status, j.RunAt = Scheduled, later(m.meta.Now, delayMs)
	}
	m.put(old, j)
	return j
}

// giveBack is old, waiting again at its old place.
func giveBack(old *Job, end End) *Job {
	j := *old
	j.Status, j.AttemptEnd = Unclaimed, end
	j.Worker, j.Heartbeat = "", 0
	return &j
}

// bury makes the job dead. It is kept: a queue must not lose jobs silently.
func (m *Machine) bury(old *Job, end End, reason string) *Job {
	j := *old
	j.Status, j.AttemptEnd = Dead, end
	j.LastError = reason
	j.FinishedAt = m.meta.Now
	m.meta.DeadTotal++
	m.put(old, &j)
	return &j
}

func one(j *Job) []*Job {
	if j == nil {
		return nil
	}
	return []*Job{j}
}
