package fsm

import (
	"slices"
	"strings"
)

// Retention of completed and cancelled jobs works by type. The machine checks a type when
// one of its jobs ended, when its settings changed, and when its oldest job is too old.

// retireMax is the largest number of jobs that one entry removes; the next entry removes
// the rest.
const retireMax = 10_000

// markDirty schedules the check of the retention of a type after the mutation.
func (m *Machine) markDirty(q *queue) {
	if !q.dirty {
		q.dirty = true
		m.dirty = append(m.dirty, q)
	}
}

// retain offers a completed or cancelled job to retention, or withdraws it: retention does
// not remove a job while other jobs wait for it.
func (m *Machine) retain(q *queue, j *Job) {
	if m.waits.waited[j.ID].all > 0 {
		q.retained.Delete(j)
		m.timeRetention(q)
		return
	}
	q.retained.Set(j)
	m.markDirty(q)
}

// reviewRetention schedules the check of all types after a change of the settings.
func (m *Machine) reviewRetention() {
	for _, q := range m.queues {
		if q.retained.Len() > 0 {
			m.markDirty(q)
		}
	}
}

// retire removes the completed and cancelled jobs that are too old or too many in the
// dirty types, in the order of their names.
func (m *Machine) retire() {
	if len(m.dirty) > 1 {
		slices.SortFunc(m.dirty, func(a, b *queue) int { return strings.Compare(a.name, b.name) })
	}
	for i, q := range m.dirty {
		m.retireOf(q)
		q.dirty, m.dirty[i] = false, nil
	}
	m.dirty = m.dirty[:0]
}

func (m *Machine) retireOf(q *queue) {
	for ; m.removals > 0; m.removals-- {
		j, ok := q.retained.Min()
		if !ok || m.retireAt(q, j) > m.meta.Now {
			break
		}
		m.remove(j)
		m.requests.rememberRemoved(j, &m.meta)
	}
	m.timeRetention(q)
}

func (m *Machine) retainCount(q *queue) int64 {
	if s := q.settings; s != nil && s.RetainCount != Unset {
		return s.RetainCount
	}
	return m.meta.Settings.RetainCompletedCount
}

// retainedUntil returns the first moment, in ms, at which a completed job is too old.
func (m *Machine) retainedUntil(q *queue, j *Job) int64 {
	keep := m.meta.Settings.RetainCompletedMs
	if s := q.settings; s != nil && s.RetainMs != Unset {
		keep = s.RetainMs
	}
	return later(j.Execution().FinishedAt, keep, 1)
}

// retireAt returns when the oldest job of a type is to be removed, in ms: when it is too
// old, or at once if there are too many.
func (m *Machine) retireAt(q *queue, j *Job) int64 {
	if int64(q.retained.Len()) > m.retainCount(q) {
		return j.Execution().FinishedAt
	}
	return m.retainedUntil(q, j)
}

// timeRetention moves the timer of a type's retention to the time at which its oldest job
// is to be removed.
func (m *Machine) timeRetention(q *queue) {
	at := int64(0)
	if j, ok := q.retained.Min(); ok {
		at = m.retireAt(q, j)
	}
	m.timers.move(&q.retainAt, at, timerRetain, q.name)
}
