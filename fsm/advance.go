package fsm

import (
	"strconv"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/fsm/timers"
)

// fireMax is the largest number of timers that one entry fires, so that no entry delays
// the others for long; the next entry fires the rest. A timer that is only moved does not
// count, because a restored machine has no such timers.
const fireMax = 10_000

// advance moves the clock to now, unless that is in the past, and fires the timers that
// have fallen due.
func (e *entry) advance(now int64) {
	was := e.meta.NowMs
	e.meta.NowMs = max(e.meta.NowMs, now, 1) // 0 means "not yet" in every field of a time
	for e.firings > 0 {
		t, ok := e.timers.Min()
		if !ok || t.At > e.meta.NowMs {
			break
		}
		e.timers.Delete(t)
		e.fire(t)
	}
	if e.firings <= 0 {
		e.types.openPermitted()
	}
	e.tokens.Expire(e.meta.NowMs)
	e.uniques.Expire(e.meta.NowMs)
	e.artefacts.Expire(e.meta.NowMs)
	e.settle()
	e.retire()
	e.retireBatches()
	e.claims.Forget(e.meta.NowMs)
	e.requests.Forget(e.meta.Settings.RequestMs, e.meta.NowMs)
	e.figures.Review(func(jobType string) bool {
		q := e.types.queues[jobType]
		return q != nil && !q.counts.Empty()
	}, was, e.meta.NowMs)
}

// openPermitted opens the types whose next permit has come, even if other timers are
// still due. A restored machine finds the open types by its clock. If a permit could wait
// for the budget of another entry, a machine without a restart would give fewer jobs than
// a restored one. openPermitted takes time in proportion to the number of types with
// settings, only in entries that exhaust the budget.
func (t *types) openPermitted() {
	t.settings.Scan(func(s *QueueSettings) bool {
		if q := t.queues[s.Name]; q.permitAt != 0 && q.permitAt <= t.meta.NowMs {
			t.timers.Delete(timers.Timer{At: q.permitAt, Kind: timers.Permit, Key: q.name})
			t.permitCame(q)
		}
		return true
	})
}

func (e *entry) fire(t timers.Timer) {
	switch t.Kind {
	case timers.Due:
		e.firings--
		old := e.ids.Get(t.Key)
		j := *old
		j.Status = Unclaimed
		e.put(old, &j)
	case timers.Lease:
		e.checkLease(e.ids.Get(t.Key), t)
	case timers.Worker:
		registry{e}.check(t)
	case timers.Timeout:
		e.checkTimeout(e.ids.Get(t.Key), t)
	case timers.Permit:
		e.types.permitCame(e.types.queues[t.Key])
	case timers.Retain:
		q := e.types.queues[t.Key]
		q.retainAt = 0
		e.types.markDirty(q)
	case timers.Resume:
		e.resume(e.types.queues[t.Key])
	case timers.Limit:
		limiting{e}.timeCame(t.Key)
	case timers.Expiry:
		e.expire(e.ids.Get(t.Key))
	}
}

func (e *entry) checkLease(j *Job, t timers.Timer) {
	if end := timers.LeaseEnd(e.meta, j); end > t.At {
		moved := j.Change()
		moved.Exec.TimerAt = end
		e.put(j, moved)
		e.timers.Set(timers.Timer{At: end, Kind: timers.Lease, Key: j.ID})
		return
	}
	e.firings--
	e.lose(j, EndLease, "the lease of worker "+tenants.Printable(j.Exec.Worker)+" ran out")
}

func (e *entry) checkTimeout(old *Job, t timers.Timer) {
	if end := timers.TimeoutEnd(e.meta, old); end > t.At {
		j := *old
		e.timers.SetTimeout(&j, end)
		e.put(old, &j)
		return
	}
	e.firings--
	e.lose(old, EndTimeout, "ran longer than "+itoa(old.Det.TimeoutMs)+" ms")
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

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
	if _, ok := m.waits.First(); ok {
		consider(m.meta.NowMs)
	}
	if t, found := m.timers.Min(); found {
		consider(t.At)
	}
	if h, found := m.uniques.First(); found {
		consider(h.UntilMs)
	}
	if t, found := m.tokens.First(); found {
		consider(t.ExpiresMs)
	}
	if at, found := m.artefacts.NextEnd(); found {
		consider(at)
	}
	if b, found := m.batches.First(); found {
		consider(batchEnd(m.meta, b))
	}
	m.crons.Due(func(c *Cron) bool {
		if without != nil && without(c) {
			return true
		}
		consider(c.NextAtMs)
		return false
	})
	return at, ok
}

func (r registry) check(t timers.Timer) {
	old := r.workers.find(t.Key)
	if workerEnd(r.meta, old) > t.At {
		r.putWorker(old, old)
		return
	}
	if old.Gone() {
		r.firings--
		r.forget(old)
		return
	}
	r.markDead(old, 0)
	if old.Quiet() { // the registry keeps it
		w := fsmpb.Copy(old)
		w.GoneAtMs = r.meta.NowMs
		r.putWorker(nil, w)
	}
}
