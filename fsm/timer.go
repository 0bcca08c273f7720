package fsm

import (
	"math"
	"strconv"
)

// A timer is something that falls due at a time. A lease's or worker's timer
// may stand earlier than its real deadline, because heartbeats and changes of
// leader do not move it; when it comes up it is moved to where it belongs now.
// So what expires is handled in the order of real deadlines, and a machine
// restored from a snapshot, whose timers are exact, behaves the same. This
// holds because a deadline only ever moves on: Heartbeat, LastSeen and
// LeasesFrom never go back, and a shorter WorkerTimeoutMs sets timers anew.
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

// fireMax bounds what falls due in one entry, so that none holds up the others
// for long; the rest is due in the next. Timers that are only moved do not count:
// a restored machine has none of these.
const fireMax = 10_000

// advance moves the clock to now, unless that is in the past, and does what
// has fallen due since.
func (m *Machine) advance(now int64) {
	m.meta.Now = max(m.meta.Now, now, 1) // 0 stands for "not yet" wherever a time may be missing
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
	m.endHolds()
	m.settle()
	m.retire()
	m.retireBatches()
	m.forgetClaims()
	m.forgetRequests()
}

// openPermitted opens the types whose next permit has come, whatever else is still
// due. A machine that is restored from a snapshot looks at the clock to see which
// types are open; if a permit could wait for the budget of another entry, the machine
// that lived on would give fewer jobs than the restored one. It takes time in the
// number of types with settings, in entries that exhaust the budget only. Below Level7
// the permit waits, as it does on nodes of the release before.
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
		m.soil(q)
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
		moved := *j
		moved.timerAt = end
		m.put(j, &moved)
		m.timers.Set(timer{at: end, kind: timerLease, key: j.ID})
		return
	}
	m.firings--
	m.expire(j, "the lease of worker "+printable(j.Worker)+" ran out")
}

// leaseEnd is the first moment at which the lease of a running job is over:
// one past its last full millisecond.
func (m *Machine) leaseEnd(j *Job) int64 {
	return later(max(j.Heartbeat, m.meta.LeasesFrom), j.HeldMs, 1)
}

// timeTimeout sets the timer of a running job's timeout.
func (m *Machine) timeTimeout(j *Job) {
	d := *j.Det
	d.timerAt = m.timeoutEnd(j)
	j.Det = &d
	m.timers.Set(timer{at: d.timerAt, kind: timerTimeout, key: j.ID})
}

// timeoutEnd is when a running job's timeout ends. A takeover leaves its worker
// the time to hear of it.
func (m *Machine) timeoutEnd(j *Job) int64 {
	end := later(j.ClaimedAt, j.Det.TimeoutMs)
	if m.meta.LeasesFrom > j.ClaimedAt {
		end = max(end, later(m.meta.LeasesFrom, min(j.HeldMs, j.Det.TimeoutMs)))
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

// NextDeadline is the machine time, in ms, at which it has something to do
// without being asked; ok is false if there is nothing to wait for. It may be
// early. The leader proposes an empty batch then, or FireCron for the schedules
// that are due (see DueCrons). Schedules for which without (nil: none) returns true do
// not count.
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
	if h, found := m.holdEnds.Min(); found {
		consider(h.Until)
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

// later adds durations to a time, all in ms. A sum that has no int64 is the
// end of time in that direction, so that no length of a lease, delay or
// retention, however foolish, turns the far future into the past.
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

// elapsed is the time from at to now, which is not negative.
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
