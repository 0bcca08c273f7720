package fsm

import (
	"math"
	"strconv"
)

// A timer is an action that falls due at a time. The timer of a lease or worker may be
// earlier than the real deadline, because heartbeats and changes of leader do not move
// it. When it fires early, the machine moves it to the real deadline. So leases expire in
// the order of their real deadlines, and a machine restored from a snapshot, whose timers
// are exact, behaves the same. This requires that a deadline never moves back: Heartbeat,
// LastSeen and LeasesFrom never decrease, and a shorter WorkerTimeoutMs sets all timers
// of workers again.
type timer struct {
	at   int64 // ms
	kind timerKind
	key  string // job id or worker name
}

type timerKind uint8

const (
	timerDue timerKind = iota
	timerLease
	timerWorker
	timerTimeout
	timerPermit // of a type's rate
	timerRetain // the oldest completed job of a type is too old
)

// fireMax is the largest number of timers that one entry fires, so that no entry delays
// the others for long; the next entry fires the rest. A timer that is only moved does not
// count, because a restored machine has no such timers.
const fireMax = 10_000

// advance moves the clock to now, unless that is in the past, and fires the timers that
// have fallen due.
func (m *Machine) advance(now int64) {
	was := m.meta.Now
	m.meta.Now = max(m.meta.Now, now, 1) // 0 means "not yet" in every field of a time
	for m.firings > 0 {
		t, ok := m.timers.Min()
		if !ok || t.at > m.meta.Now {
			break
		}
		m.timers.Delete(t)
		m.fire(t)
	}
	if m.firings <= 0 && m.Level() >= Level7 {
		m.openPermitted()
	}
	m.endTokens()
	m.endReservations()
	m.settle()
	m.retire()
	m.retireBatches()
	m.forgetClaims()
	m.forgetRequests()
	m.reviewFigures(was)
}

// openPermitted opens the types whose next permit has come, even if other timers are
// still due. A restored machine finds the open types by its clock. If a permit could wait
// for the budget of another entry, a machine without a restart would give fewer jobs than
// a restored one. openPermitted takes time in proportion to the number of types with
// settings, only in entries that exhaust the budget. Below Level7 the permit waits, as on
// nodes of the previous release.
func (m *Machine) openPermitted() {
	m.settings.Scan(func(s *QueueSettings) bool {
		if q := m.queues[s.Name]; q.permitAt != 0 && q.permitAt <= m.meta.Now {
			m.timers.Delete(timer{at: q.permitAt, kind: timerPermit, key: q.name})
			m.permitCame(q)
		}
		return true
	})
}

func (m *Machine) fire(t timer) {
	switch t.kind {
	case timerDue:
		m.due(m.ids[t.key])
	case timerLease:
		m.checkLease(m.ids[t.key], t)
	case timerWorker:
		m.checkWorker(t)
	case timerTimeout:
		m.checkTimeout(m.ids[t.key], t)
	case timerPermit:
		m.permitCame(m.queues[t.key])
	case timerRetain:
		q := m.queues[t.key]
		q.retainAt = 0
		m.markDirty(q)
	}
}

// due makes a scheduled job claimable.
func (m *Machine) due(old *Job) {
	m.firings--
	j := *old
	j.Status = Unclaimed
	m.put(old, &j)
}

func (m *Machine) checkLease(j *Job, t timer) {
	if end := m.leaseEnd(j); end > t.at {
		moved := j.Change()
		moved.Exec.timerAt = end
		m.put(j, moved)
		m.timers.Set(timer{at: end, kind: timerLease, key: j.ID})
		return
	}
	m.firings--
	m.expire(j, "the lease of worker "+printable(j.Exec.Worker)+" ran out")
}

// leaseEnd returns the first moment, in ms, at which the lease of a running job has
// expired.
func (m *Machine) leaseEnd(j *Job) int64 {
	return later(max(j.Exec.Heartbeat, m.meta.LeasesFrom), j.Exec.HeldMs, 1)
}

// timeTimeout sets the timer of a running job's timeout.
func (m *Machine) timeTimeout(j *Job) {
	d := *j.Det
	d.timerAt = m.timeoutEnd(j)
	j.Det = &d
	m.timers.Set(timer{at: d.timerAt, kind: timerTimeout, key: j.ID})
}

// timeoutEnd returns when the timeout of a running job ends, in ms. After a takeover its
// worker has time to reach the new leader.
func (m *Machine) timeoutEnd(j *Job) int64 {
	end := later(j.Exec.ClaimedAt, j.Det.TimeoutMs)
	if m.meta.LeasesFrom > j.Exec.ClaimedAt {
		end = max(end, later(m.meta.LeasesFrom, min(j.Exec.HeldMs, j.Det.TimeoutMs)))
	}
	return end
}

func (m *Machine) checkTimeout(old *Job, t timer) {
	if m.timeoutEnd(old) > t.at {
		j := *old
		m.timeTimeout(&j)
		m.put(old, &j)
		return
	}
	m.firings--
	m.endBadly(old, EndTimeout, "ran longer than "+itoa(old.Det.TimeoutMs)+" ms", nil)
}

// NextDeadline returns the machine time, in ms, at which the machine has to act without a
// request; ok is false if there is no such time. The time may be too early, never too
// late. The leader then proposes an empty batch, or FireCron for the schedules that are
// due (see DueCrons). Schedules for which without returns true do not count; a nil
// without excludes none.
func (m *Machine) NextDeadline(without func(*Cron) bool) (at int64, ok bool) {
	consider := func(t int64) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if m.unsettled.Len() > 0 {
		consider(m.meta.Now)
	}
	if t, found := m.timers.Min(); found {
		consider(t.at)
	}
	if h, found := m.reservationEnds.Min(); found {
		consider(h.Until)
	}
	if t, found := m.tokenEnds.Min(); found {
		consider(t.ExpiresAt)
	}
	if b, found := m.idle.Min(); found {
		consider(m.batchEnd(b))
	}
	m.cronsDue.Scan(func(c *Cron) bool {
		if without != nil && without(c) {
			return true
		}
		consider(c.NextAt)
		return false
	})
	return at, ok
}

// later adds durations to a time, all in ms. A sum outside of int64 saturates, so that no
// length of a lease, delay or retention, however large, turns the far future into the
// past.
func later(at int64, durations ...int64) int64 {
	for _, d := range durations {
		sum := at + d
		switch {
		case d > 0 && sum < at:
			sum = math.MaxInt64
		case d < 0 && sum > at:
			sum = math.MinInt64
		}
		at = sum
	}
	return at
}

// elapsed returns the time from at to now, at least 0.
func elapsed(at, now int64) int64 {
	if at < 0 && now > math.MaxInt64+at {
		return math.MaxInt64
	}
	return now - at
}

func printable(worker string) string {
	if worker == Anonymous {
		return "(no name)"
	}
	return worker
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
