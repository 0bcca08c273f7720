package fsm

import (
	"math"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/timers"
)

// Retention of ended jobs works by type: once for completed, cancelled and expired jobs, and once for dead ones. The machine
// checks a type when one of its jobs ended, when its settings changed, and when its oldest job is too old.

// retainDeadMs is how long dead jobs are kept, in ms, unless their type says otherwise.
const retainDeadMs = 90 * 24 * 3_600_000

// retainedWith returns the tree of q.retained that j belongs to: first those of jobs that did not die, under the age of their
// type and under one of their own, then the same of dead jobs. It makes the tree if there is none.
func (q *queue) retainedWith(j *Job) *btree.Tree[*Job] {
	i, order := 0, byEnd
	if j.Status == Dead {
		i = 2
	}
	if j.Options().RetainMs > 0 {
		i, order = i+1, byOwnEnd
	}
	if q.retained[i] == nil {
		q.retained[i] = btree.New(order)
	}
	return q.retained[i]
}

// byOwnEnd orders jobs with an age of their own by the time at which they are too old.
func byOwnEnd(a, b *Job) bool {
	if x, y := retainedUntil(a, 0), retainedUntil(b, 0); x != y {
		return x < y
	}
	return byEnd(a, b)
}

// retainedUntil returns the first moment at which j is too old, in ms; keepMs is the age of its type.
func retainedUntil(j *Job, keepMs int64) int64 {
	if own := j.Options().RetainMs; own > 0 {
		keepMs = own
	}
	return job.Later(j.Execution().FinishedAt, keepMs, 1)
}

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

// retain offers a job that has ended to retention, or withdraws it: retention does
// not remove a job while other jobs wait for it.
func (t *types) retain(j *Job, waited bool) {
	q := t.queues[j.Type]
	if waited {
		q.retainedWith(j).Delete(j)
		t.timeRetention(q)
		return
	}
	q.retainedWith(j).Set(j)
	t.markDirty(q)
}

// reviewRetention schedules the check of all types after a change of the settings.
func (t *types) reviewRetention() {
	for _, q := range t.queues {
		t.markDirty(q)
	}
}

// retire removes the ended jobs that are too old or too many in the
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
	for _, dead := range []bool{false, true} {
		for ; e.removals > 0; e.removals-- {
			j, at := e.types.nextRetired(q, dead)
			if j == nil || at > e.meta.NowMs {
				break
			}
			e.remove(j)
			e.requests.RememberRemoved(j, e.meta)
			if dead {
				q.figures = e.figures.Of(q.figures, q.name)
				q.figures.DeadRemoved++
				e.tell(aboutJob(outbox.JobRemoved, j, j.Execution().LastError))
			}
		}
	}
	e.types.timeRetention(q)
}

// retention returns how long, in ms, and how many of the dead or other jobs of a type are kept.
func (t *types) retention(q *queue, dead bool) (keepMs, count int64) {
	keepMs, count = t.meta.Settings.RetainCompletedMs, t.meta.Settings.RetainCompletedCount
	if dead {
		keepMs, count = retainDeadMs, math.MaxInt64
	}
	switch s := q.settings; {
	case s == nil:
	case dead:
		setTo(&keepMs, s.RetainDeadMs)
		setTo(&count, s.RetainDeadCount)
	default:
		assign(&keepMs, &s.RetainMs, keepMs)
		assign(&count, &s.RetainCount, count)
	}
	return keepMs, count
}

// nextRetired returns the dead or other job of a type that is removed next, or nil, and when that is to be, in ms: at the
// first moment at which it is too old, or at once if there are too many. It is the one that is too old first.
func (t *types) nextRetired(q *queue, dead bool) (next *Job, at int64) {
	trees, n := q.retained[:2], 0
	if dead {
		trees = q.retained[2:]
	}
	keepMs, count := t.retention(q, dead)
	for _, tree := range trees {
		if tree == nil {
			continue
		}
		n += tree.Len()
		j, ok := tree.Min()
		if !ok {
			continue
		}
		if until := retainedUntil(j, keepMs); next == nil || until < at || until == at && byEnd(j, next) {
			next, at = j, until
		}
	}
	if next != nil && int64(n) > count {
		at = next.Execution().FinishedAt
	}
	return next, at
}

// timeRetention moves the timer of a type's retention to the time at which its next job
// is to be removed.
func (t *types) timeRetention(q *queue) {
	j, at := t.nextRetired(q, false)
	if died, diedAt := t.nextRetired(q, true); died != nil && (j == nil || diedAt < at) {
		at = diedAt
	}
	t.timers.Move(&q.retainAt, at, timers.Retain, q.name)
}
