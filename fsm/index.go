package fsm

// labels calls fn for every label of j.
func (j *Job) labels(fn func(label)) {
	if j.Opt == nil {
		return
	}
	for _, t := range j.Opt.Tags {
		fn(tagLabel(t))
	}
	if j.Opt.Batch != "" {
		fn(batchLabel(j.Opt.Batch))
	}
}

// put stores j, which replaces old (nil for a new job), in every index.
func (m *Machine) put(old, j *Job) {
	from := Status(0)
	if old == nil {
		m.ids.Add(j, m.ids.Hash(j.ID)) // the enqueue has found no job with the id
		m.waits.addDependents(j)
	} else {
		m.ids.Put(j)
		if from = old.Status; from == j.Status {
			m.replace(old, j)
			return
		}
		m.unindex(old)
	}
	m.index(j)
	m.events = append(m.events, Event{Job: j, From: from})
	if countsChange(from, j.Status) {
		m.figures.count(m.types.queues[j.Type], from, j, m.meta.Now)
	}
	if m.hooks.HookCount() > 0 {
		if e, ok := jobEvent(from, j); ok {
			m.tell(e)
		}
	}
	if j.Status == Cancelled {
		m.meta.CancelledTotal++
	}
	if from == 0 || from.ended() || j.Status.ended() {
		m.waits.consider(j.ID, j.Status)
	}
	if j.Opt != nil && j.Opt.Batch != "" {
		m.countInBatch(j, from, j.Status)
	}
}

// putEndedAgain stores j in place of old, which ended in the same status, but at another
// time and with another result.
func (m *Machine) putEndedAgain(old, j *Job) {
	m.unindex(old)
	m.ids.Put(j)
	m.index(j)
	m.events = append(m.events, Event{Job: j, From: old.Status})
}

// replace stores j in place of old, which has the same status.
func (m *Machine) replace(old, j *Job) {
	m.jobs.Set(j)
	m.types.typed.Set(j)
	j.labels(func(l label) { m.tagged.Set(tagged{l, j}) })
	switch j.Status {
	case InProgress:
		m.running.Set(j)
	case Blocked:
		m.countWaits(old, j.Details().Waits, -1)
	}
}

// remove deletes j from the state.
func (m *Machine) remove(j *Job) {
	m.unindex(j)
	m.usage.drop(j)
	m.waits.removeDependents(j)
	m.ids.Remove(j.ID)
	m.events = append(m.events, Event{Kind: JobRemoved, Job: j, From: j.Status, Removed: true})
	m.waits.consider(j.ID, 0)
	if j.Opt != nil && j.Opt.Batch != "" && !j.Status.ended() {
		m.countInBatch(j, j.Status, Cancelled)
	}
}

func (m *Machine) index(j *Job) {
	q := m.types.queue(j.Type)
	m.countIn(q, j, +1)
	m.jobs.Set(j)
	m.types.typed.Set(j)
	j.labels(func(l label) { m.tagged.Set(tagged{l, j}) })
	m.uniques.add(j)
	switch j.Status {
	case Scheduled:
		m.timers.Set(timer{at: j.RunAt, kind: timerDue, key: j.ID})
	case Unclaimed:
		m.types.beginWait(q, j)
	case InProgress:
		m.indexRunning(q, j)
	case Completed, Cancelled:
		m.types.retain(j, m.waits.waited[j.ID].all > 0)
	case Blocked:
		m.countWaits(j, nil, +1)
	}
}

func (m *Machine) unindex(j *Job) {
	q := m.types.queues[j.Type]
	m.countIn(q, j, -1)
	m.jobs.Delete(j)
	m.types.typed.Delete(j)
	j.labels(func(l label) { m.tagged.Delete(tagged{l, j}) })
	m.uniques.remove(j)
	switch j.Status {
	case Scheduled:
		m.timers.Delete(timer{at: j.RunAt, kind: timerDue, key: j.ID})
	case Unclaimed:
		m.types.endWait(q, j)
	case InProgress:
		m.unindexRunning(q, j)
	case Completed, Cancelled:
		q.retained.Delete(j)
		m.types.timeRetention(q)
	case Blocked:
		m.countWaits(j, nil, -1)
	}
	m.types.dropIdle(q)
}

func (m *Machine) indexRunning(q *queue, j *Job) {
	m.running.Set(j)
	j.Exec.timerAt = m.meta.leaseEnd(j)
	m.timers.Set(timer{at: j.Exec.timerAt, kind: timerLease, key: j.ID})
	if d := j.Det; d != nil && d.TimeoutMs > 0 {
		m.timers.setTimeout(j, m.meta.timeoutEnd(j))
	}
	m.types.countRunning(q, j.group(), +1)
}

func (m *Machine) unindexRunning(q *queue, j *Job) {
	m.running.Delete(j)
	m.timers.Delete(timer{at: j.Exec.timerAt, kind: timerLease, key: j.ID})
	if d := j.Det; d != nil && d.TimeoutMs > 0 {
		m.timers.Delete(timer{at: d.timerAt, kind: timerTimeout, key: j.ID})
	}
	m.types.countRunning(q, j.group(), -1)
}

// countIn counts a job (n is 1), or takes it out (n is -1).
func (m *Machine) countIn(q *queue, j *Job, n int) {
	q.counts[j.Status] += n
	m.counts[j.Status] += n
	size := int64(n) * j.size()
	q.bytes += size
	m.bytes += size
	m.types.changed(q)
	m.usage.count(j, n)
}
