package fsm

import "osqueue/fsm/fsmpb"

// advance moves the clock to now, unless that is in the past, and fires the timers that
// have fallen due.
func (e *entry) advance(now int64) {
	was := e.meta.NowMs
	e.meta.NowMs = max(e.meta.NowMs, now, 1) // 0 means "not yet" in every field of a time
	for e.firings > 0 {
		t, ok := e.timers.Min()
		if !ok || t.at > e.meta.NowMs {
			break
		}
		e.timers.Delete(t)
		e.fire(t)
	}
	if e.firings <= 0 {
		e.types.openPermitted()
	}
	e.tokens.expire(e.meta.NowMs)
	e.uniques.expire(e.meta.NowMs)
	e.settle()
	e.retire()
	e.retireBatches()
	e.claims.forget(e.meta.NowMs)
	e.requests.forget(e.meta.Settings.RequestMs, e.meta.NowMs)
	e.figures.Review(func(jobType string) bool {
		q := e.types.queues[jobType]
		return q != nil && !q.counts.empty()
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
			t.timers.Delete(timer{at: q.permitAt, kind: timerPermit, key: q.name})
			t.permitCame(q)
		}
		return true
	})
}

func (e *entry) fire(t timer) {
	switch t.kind {
	case timerDue:
		e.firings--
		old := e.ids.Get(t.key)
		j := *old
		j.Status = Unclaimed
		e.put(old, &j)
	case timerLease:
		e.checkLease(e.ids.Get(t.key), t)
	case timerWorker:
		registry{e}.check(t)
	case timerTimeout:
		e.checkTimeout(e.ids.Get(t.key), t)
	case timerPermit:
		e.types.permitCame(e.types.queues[t.key])
	case timerRetain:
		q := e.types.queues[t.key]
		q.retainAt = 0
		e.types.markDirty(q)
	case timerResume:
		e.resume(e.types.queues[t.key])
	case timerLimit:
		limiting{e}.timeCame(t.key)
	case timerExpiry:
		e.expire(e.ids.Get(t.key))
	}
}

func (e *entry) checkLease(j *Job, t timer) {
	if end := leaseEnd(e.meta, j); end > t.at {
		moved := j.Change()
		moved.Exec.TimerAt = end
		e.put(j, moved)
		e.timers.Set(timer{at: end, kind: timerLease, key: j.ID})
		return
	}
	e.firings--
	e.lose(j, EndLease, "the lease of worker "+printable(j.Exec.Worker)+" ran out")
}

func (e *entry) checkTimeout(old *Job, t timer) {
	if end := timeoutEnd(e.meta, old); end > t.at {
		j := *old
		e.timers.setTimeout(&j, end)
		e.put(old, &j)
		return
	}
	e.firings--
	e.lose(old, EndTimeout, "ran longer than "+itoa(old.Det.TimeoutMs)+" ms")
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
	if m.waits.unsettled.Len() > 0 {
		consider(m.meta.NowMs)
	}
	if t, found := m.timers.Min(); found {
		consider(t.at)
	}
	if h, found := m.uniques.First(); found {
		consider(h.UntilMs)
	}
	if t, found := m.tokens.First(); found {
		consider(t.ExpiresMs)
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

func (r registry) check(t timer) {
	old := r.workers.find(t.key)
	if workerEnd(r.meta, old) > t.at {
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
