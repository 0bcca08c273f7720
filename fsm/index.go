package fsm

import (
	"osqueue/fsm/figures"
	"osqueue/fsm/timers"
)

// labels calls fn for every label of j.
func labels(j *Job, fn func(label)) {
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

// put stores j, which replaces old (nil for a new job), in every index. Only a scheduled job awaits a signal.
func (e *entry) put(old, j *Job) {
	if j.Status != Scheduled && j.Details().Awaits != "" {
		j.ChangeDetails(func(d *Details) { d.Awaits = "" })
	}
	from := Status(0)
	if old == nil {
		e.ids.Add(j, e.ids.Hash(j.ID)) // the enqueue has found no job with the id
		e.waits.Add(j)
		dependencies{e.Machine}.reviewAfter(j)
	} else {
		e.ids.Put(j)
		if from = old.Status; from == j.Status {
			e.replace(old, j)
			return
		}
		e.unindex(old)
	}
	e.index(j)
	e.events = append(e.events, Event{Job: j, From: from})
	if figures.CountsChange(from, j.Status) {
		q := e.types.queues[j.Type]
		q.figures = e.figures.Count(q.figures, from, j, e.meta.NowMs)
	}
	if e.hooks.HookCount() > 0 {
		if news := jobEvent(from, j); news != nil {
			e.tell(news)
		}
	}
	switch j.Status {
	case Completed:
		e.meta.CompletedTotal++
	case Dead:
		e.meta.DeadTotal++
	case Cancelled, Expired:
		e.meta.CancelledTotal++
	}
	if old != nil {
		dependencies{e.Machine}.changed(old, j)
	}
	if from == 0 || from.Ended() || j.Status.Ended() {
		e.waits.Consider(j.ID, j.Status)
	}
	if j.Opt != nil && j.Opt.Batch != "" {
		e.countInBatch(j, from, j.Status)
	}
	if (from.Ended() || j.Status.Ended()) && j.Options().Cron != "" {
		e.noteRun(j, j.Status)
	}
}

// putAnew stores j in place of old, which has the same status, as if it had come to it again: a job that ended at another
// time and with another result, or one that waits again for others. An available job keeps its group's turn.
func (e *entry) putAnew(old, j *Job) {
	if j.Status == Unclaimed {
		e.timers.Expiry(old, false)
		e.timers.Expiry(j, true)
		e.reindex(old, j)
	} else {
		e.unindex(old)
		e.ids.Put(j)
		e.index(j)
	}
	e.events = append(e.events, Event{Job: j, From: old.Status})
}

// replace stores j in place of old, which has the same status.
func (m *Machine) replace(old, j *Job) {
	m.jobs.Set(j)
	m.types.typed.Set(j)
	labels(j, func(l label) { m.tagged.Set(tagged{l, j}) })
	switch j.Status {
	case InProgress:
		m.running.Set(j)
	case Blocked:
		dependencies{m}.count(old, j.Details().Waits, -1)
		m.sequences.remove(old)
		m.sequences.add(j)
	}
}

// reindex is replace for a job that has not ended: its order, time, tags and size may differ.
func (m *Machine) reindex(old, j *Job) {
	q := m.types.queues[j.Type]
	m.countIn(q, old, -1)
	m.countIn(q, j, +1)
	labels(old, func(l label) { m.tagged.Delete(tagged{l, old}) })
	m.ids.Put(j)
	m.replace(old, j)
	switch g := q.groups[j.InGroup()]; j.Status {
	case Scheduled:
		m.timers.Delete(timers.Timer{At: old.RunAt, Kind: timers.Due, Key: j.ID})
		m.timers.Set(timers.Timer{At: j.RunAt, Kind: timers.Due, Key: j.ID})
	case Unclaimed:
		m.types.exit(q, g, old)
		m.types.enter(q, g, j)
		m.types.arrive(q, 1)
		m.types.settleGroup(q, g)
	}
}

// remove deletes j from the state.
func (e *entry) remove(j *Job) {
	e.unindex(j)
	e.usage.Drop(j)
	e.artefacts.ReleaseOf(j.ID, e.meta.NowMs)
	e.waits.Remove(j)
	if !j.Status.Ended() {
		dependencies{e.Machine}.reviewAfter(j)
	}
	e.ids.Remove(j.ID)
	e.events = append(e.events, Event{Kind: JobRemoved, Job: j, From: j.Status, Removed: true})
	e.waits.Consider(j.ID, 0)
	if j.Opt != nil && j.Opt.Batch != "" && !j.Status.Ended() {
		e.countInBatch(j, j.Status, Cancelled)
	}
	if j.Options().Cron != "" && !j.Status.Ended() {
		e.noteRun(j, Cancelled)
	}
}

func (m *Machine) index(j *Job) {
	q := m.types.queue(j.Type)
	m.countIn(q, j, +1)
	m.jobs.Set(j)
	m.types.typed.Set(j)
	labels(j, func(l label) { m.tagged.Set(tagged{l, j}) })
	m.uniques.Add(j)
	m.sequences.add(j)
	m.timers.Expiry(j, true)
	switch j.Status {
	case Scheduled:
		m.timers.Set(timers.Timer{At: j.RunAt, Kind: timers.Due, Key: j.ID})
	case Unclaimed:
		m.types.beginWait(q, j)
	case InProgress:
		m.indexRunning(q, j)
	case Completed, Dead, Cancelled, Expired:
		m.types.retain(j, m.waits.Keeps(j.ID))
	case Blocked:
		dependencies{m}.count(j, nil, +1)
	}
}

func (m *Machine) unindex(j *Job) {
	q := m.types.queues[j.Type]
	m.countIn(q, j, -1)
	m.jobs.Delete(j)
	m.types.typed.Delete(j)
	labels(j, func(l label) { m.tagged.Delete(tagged{l, j}) })
	m.uniques.Remove(j)
	m.sequences.remove(j)
	m.timers.Expiry(j, false)
	switch j.Status {
	case Scheduled:
		m.timers.Delete(timers.Timer{At: j.RunAt, Kind: timers.Due, Key: j.ID})
	case Unclaimed:
		m.types.endWait(q, j)
	case InProgress:
		m.unindexRunning(q, j)
	case Completed, Dead, Cancelled, Expired:
		q.retainedWith(j).Delete(j)
		m.types.timeRetention(q)
	case Blocked:
		dependencies{m}.count(j, nil, -1)
	}
	m.types.dropIdle(q)
}

func (m *Machine) indexRunning(q *queue, j *Job) {
	m.running.Set(j)
	j.Exec.TimerAt = timers.LeaseEnd(m.meta, j)
	m.timers.Set(timers.Timer{At: j.Exec.TimerAt, Kind: timers.Lease, Key: j.ID})
	if d := j.Det; d != nil && d.TimeoutMs > 0 {
		m.timers.SetTimeout(j, timers.TimeoutEnd(m.meta, j))
	}
	m.types.countRunning(q, j.InGroup(), +1)
	m.types.countKeys(j, +1)
}

func (m *Machine) unindexRunning(q *queue, j *Job) {
	m.running.Delete(j)
	m.timers.Delete(timers.Timer{At: j.Exec.TimerAt, Kind: timers.Lease, Key: j.ID})
	if d := j.Det; d != nil && d.TimeoutMs > 0 {
		m.timers.Delete(timers.Timer{At: d.TimerAt, Kind: timers.Timeout, Key: j.ID})
	}
	m.types.countRunning(q, j.InGroup(), -1)
	m.types.countKeys(j, -1)
}

// countIn counts a job (n is 1), or takes it out (n is -1).
func (m *Machine) countIn(q *queue, j *Job, n int) {
	q.counts[j.Status] += n
	m.counts[j.Status] += n
	size := int64(n) * j.Size()
	q.bytes += size
	m.bytes += size
	m.types.changed(q)
	m.usage.Count(j, n)
}
