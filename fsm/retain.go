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
func (t *types) markDirty(q *queue) {
	if !q.dirty {
		q.dirty = true
		t.dirty = append(t.dirty, q)
	}
}

// retain offers a completed or cancelled job to retention, or withdraws it: retention does
// not remove a job while other jobs wait for it.
func (t *types) retain(j *Job, waited bool) {
	q := t.queues[j.Type]
	if waited {
		q.retained.Delete(j)
		t.timeRetention(q)
		return
	}
	q.retained.Set(j)
	t.markDirty(q)
}

// reviewRetention schedules the check of all types after a change of the settings.
func (t *types) reviewRetention() {
	for _, q := range t.queues {
		if q.retained.Len() > 0 {
			t.markDirty(q)
		}
	}
}

// retire removes the completed and cancelled jobs that are too old or too many in the
// dirty types, in the order of their names.
func (e *entry) retire() {
	dirty := e.types.dirty
	if len(dirty) > 1 {
		slices.SortFunc(dirty, func(a, b *queue) int { return strings.Compare(a.name, b.name) })
	}
	for i, q := range dirty {
		e.retireOf(q)
		q.dirty, dirty[i] = false, nil
	}
	e.types.dirty = dirty[:0]
}

func (e *entry) retireOf(q *queue) {
	for ; e.removals > 0; e.removals-- {
		j, ok := q.retained.Min()
		if !ok || e.types.retireAt(q, j) > e.meta.Now {
			break
		}
		e.remove(j)
		e.requests.rememberRemoved(j, &e.meta)
	}
	e.types.timeRetention(q)
}

func (t *types) retainCount(q *queue) int64 {
	if s := q.settings; s != nil && s.RetainCount != Unset {
		return s.RetainCount
	}
	return t.meta.Settings.RetainCompletedCount
}

// retireAt returns when the oldest job of a type is to be removed, in ms: at the first moment
// at which it is too old, or at once if there are too many.
func (t *types) retireAt(q *queue, j *Job) int64 {
	end, keep := j.Execution().FinishedAt, t.meta.Settings.RetainCompletedMs
	if int64(q.retained.Len()) > t.retainCount(q) {
		return end
	}
	if s := q.settings; s != nil && s.RetainMs != Unset {
		keep = s.RetainMs
	}
	return later(end, keep, 1)
}

// timeRetention moves the timer of a type's retention to the time at which its oldest job
// is to be removed.
func (t *types) timeRetention(q *queue) {
	at := int64(0)
	if j, ok := q.retained.Min(); ok {
		at = t.retireAt(q, j)
	}
	t.timers.move(&q.retainAt, at, timerRetain, q.name)
}
