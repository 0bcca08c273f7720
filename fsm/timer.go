package fsm

import "math"

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
)

// advance moves the clock to now, unless that is in the past, and does what
// has fallen due since.
func (m *Machine) advance(now int64) {
	m.meta.Now = max(m.meta.Now, now)
	for {
		t, ok := m.timers.Min()
		if !ok || t.at > m.meta.Now {
			break
		}
		m.timers.Delete(t)
		m.fire(t)
	}
	m.retire()
	m.forgetClaims()
}

func (m *Machine) fire(t timer) {
	switch t.kind {
	case timerDue:
		m.due(m.ids[t.key])
	case timerLease:
		m.checkLease(m.ids[t.key], t)
	case timerWorker:
		m.checkWorker(t)
	}
}

// due makes a scheduled job claimable.
func (m *Machine) due(old *Job) {
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
	m.expire(j, "the lease of worker "+printable(j.Worker)+" ran out")
}

// leaseEnd is the first moment at which the lease of a running job is over:
// one past its last full millisecond.
func (m *Machine) leaseEnd(j *Job) int64 {
	return later(max(j.Heartbeat, m.meta.LeasesFrom), j.HeldMs, 1)
}

// retire removes completed and cancelled jobs that are too old or too many.
func (m *Machine) retire() {
	s := &m.meta.Settings
	for {
		j, ok := m.retained.Min()
		if !ok {
			return
		}
		tooMany := int64(m.retained.Len()) > s.RetainCompletedCount
		if !tooMany && retainedUntil(j, s) > m.meta.Now {
			return
		}
		m.remove(j)
	}
}

// retainedUntil is the first moment at which a completed job is too old.
func retainedUntil(j *Job, s *Settings) int64 {
	return later(j.FinishedAt, s.RetainCompletedMs, 1)
}

// NextDeadline is the machine time, in ms, at which it has something to do
// without being asked; ok is false if there is nothing to wait for. It may be
// early. The leader proposes an empty batch then.
func (m *Machine) NextDeadline() (at int64, ok bool) {
	if t, found := m.timers.Min(); found {
		at, ok = t.at, true
	}
	if j, found := m.retained.Min(); found {
		if end := retainedUntil(j, &m.meta.Settings); !ok || end < at {
			at, ok = end, true
		}
	}
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

func printable(worker string) string {
	if worker == Anonymous {
		return "(no name)"
	}
	return worker
}
