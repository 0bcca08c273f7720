package fsm

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
	if m.firings <= 0 {
		m.types.openPermitted()
	}
	m.tokens.expire(m.meta.Now)
	m.uniques.expire(m.meta.Now)
	m.settle()
	m.retire()
	m.retireBatches()
	m.claims.forget(m.meta.Now)
	m.requests.forget(m.meta.Settings.RequestMs, m.meta.Now)
	m.figures.review(m.types.queues, was, m.meta.Now)
}

// openPermitted opens the types whose next permit has come, even if other timers are
// still due. A restored machine finds the open types by its clock. If a permit could wait
// for the budget of another entry, a machine without a restart would give fewer jobs than
// a restored one. openPermitted takes time in proportion to the number of types with
// settings, only in entries that exhaust the budget.
func (t *types) openPermitted() {
	t.settings.Scan(func(s *QueueSettings) bool {
		if q := t.queues[s.Name]; q.permitAt != 0 && q.permitAt <= t.meta.Now {
			t.timers.Delete(timer{at: q.permitAt, kind: timerPermit, key: q.name})
			t.permitCame(q)
		}
		return true
	})
}

func (m *Machine) fire(t timer) {
	switch t.kind {
	case timerDue:
		m.due(m.ids.Get(t.key))
	case timerLease:
		m.checkLease(m.ids.Get(t.key), t)
	case timerWorker:
		m.checkWorker(t)
	case timerTimeout:
		m.checkTimeout(m.ids.Get(t.key), t)
	case timerPermit:
		m.types.permitCame(m.types.queues[t.key])
	case timerRetain:
		q := m.types.queues[t.key]
		q.retainAt = 0
		m.types.markDirty(q)
	case timerResume:
		m.resume(m.types.queues[t.key])
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
	if end := m.meta.leaseEnd(j); end > t.at {
		moved := j.Change()
		moved.Exec.timerAt = end
		m.put(j, moved)
		m.timers.Set(timer{at: end, kind: timerLease, key: j.ID})
		return
	}
	m.firings--
	m.lose(j, EndLease, "the lease of worker "+printable(j.Exec.Worker)+" ran out")
}

func (m *Machine) checkTimeout(old *Job, t timer) {
	if end := m.meta.timeoutEnd(old); end > t.at {
		j := *old
		m.timers.setTimeout(&j, end)
		m.put(old, &j)
		return
	}
	m.firings--
	m.lose(old, EndTimeout, "ran longer than "+itoa(old.Det.TimeoutMs)+" ms")
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
		consider(m.meta.Now)
	}
	if t, found := m.timers.Min(); found {
		consider(t.at)
	}
	if h, found := m.uniques.First(); found {
		consider(h.UntilMs)
	}
	if t, found := m.tokens.First(); found {
		consider(t.ExpiresAt)
	}
	if b, found := m.batches.First(); found {
		consider(m.meta.batchEnd(b))
	}
	m.crons.Due(func(c *Cron) bool {
		if without != nil && without(c) {
			return true
		}
		consider(c.NextAt)
		return false
	})
	return at, ok
}

func (m *Machine) checkWorker(t timer) {
	old := m.workers.find(t.key)
	if m.meta.workerEnd(old) > t.at {
		m.putWorker(old, new(*old))
		return
	}
	if old.Gone() {
		m.firings--
		m.forgetWorker(old)
		return
	}
	m.markWorkerDead(old, 0)
	if old.Quiet() { // the registry keeps it
		w := *old
		w.GoneAt = m.meta.Now
		m.putWorker(nil, &w)
	}
}
