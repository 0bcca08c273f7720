package fsm

import "slices"

// Jobs that wait for others. A job is settled when it has ended, or is gone, and
// none of those that wait for it is affected any more; unsettled has the ids of
// the others. All of this follows from the jobs, so that a restored machine goes
// on in the same way.

// Bounds: on what one job waits for (checked by the API, too), on those that
// wait for one job, and on those that are settled in one entry.
const (
	waitersMax = 10_000
	settleMax  = 10_000
)

// waiter is a blocked job's place among those that wait for the same one.
type waiter struct {
	on    string // id
	stays bool   // the other's death leaves it waiting
	seq   uint64
	id    string
}

func byWaited(a, b waiter) bool {
	if a.on != b.on {
		return a.on < b.on
	}
	if a.stays != b.stays {
		return b.stays
	}
	return a.seq < b.seq
}

// waiting counts the jobs that wait for one.
type waiting struct {
	all   int
	moved int // those that its death does not leave waiting
}

func (m *Machine) indexWaits(j *Job)   { m.countWaits(j, +1) }
func (m *Machine) unindexWaits(j *Job) { m.countWaits(j, -1) }

func (m *Machine) countWaits(j *Job, n int) {
	stays := j.Options().AfterFailure == AfterBlock
	for _, on := range j.Details().Waits {
		m.countWait(j, on, stays, n)
	}
}

func (m *Machine) countWait(j *Job, on string, stays bool, n int) {
	w := waiter{on: on, stays: stays, seq: j.Seq, id: j.ID}
	if n > 0 {
		m.waiters.Set(w)
	} else {
		m.waiters.Delete(w)
	}
	c := m.waited[on]
	c.all += n
	if !stays {
		c.moved += n
	}
	if m.waited[on] = c; c.all == 0 {
		delete(m.waited, on)
	}
	m.retainWaited(on)
	m.considerWaiters(on)
}

// dropWaits takes out of the index what j, which replaces old, does not wait for
// any more. The rest stands in the same order.
func (m *Machine) dropWaits(old, j *Job) {
	stays, rest := j.Options().AfterFailure == AfterBlock, j.Details().Waits
	for _, on := range old.Details().Waits {
		if len(rest) > 0 && rest[0] == on {
			rest = rest[1:]
			continue
		}
		m.countWait(old, on, stays, -1)
	}
}

// retainWaited puts a completed or cancelled job among those that retention
// may remove, or takes it out: it stays while others wait for it.
func (m *Machine) retainWaited(id string) {
	j := m.ids[id]
	if j == nil || j.Status != Completed && j.Status != Cancelled {
		return
	}
	q := m.queues[j.Type]
	if m.waited[id].all > 0 {
		q.retained.Delete(j)
		m.timeRetention(q)
		return
	}
	q.retained.Set(j)
	m.soil(q)
}

// considerWaiters notes whether the job with that id has waiters to settle.
func (m *Machine) considerWaiters(id string) {
	if len(m.waited) == 0 && m.unsettled.Len() == 0 {
		return
	}
	if m.affects(id) {
		m.unsettled.Set(id)
	} else {
		m.unsettled.Delete(id)
	}
}

func (m *Machine) affects(id string) bool {
	w := m.waited[id]
	switch j := m.ids[id]; {
	case j == nil, j.Status == Completed:
		return w.all > 0
	case j.Status == Dead, j.Status == Cancelled:
		return w.moved > 0
	}
	return false
}

// settle tells waiting jobs what became of those that they wait for.
func (m *Machine) settle() {
	for m.budget > 0 {
		on, ok := m.unsettled.Min()
		if !ok {
			return
		}
		m.budget--
		m.settleOne(on, m.firstAffected(on))
	}
}

// firstAffected is the first job that the end of another does not leave waiting.
func (m *Machine) firstAffected(on string) *Job {
	first := m.firstWaiter(on, false)
	if other := m.ids[on]; other != nil && other.Status != Completed {
		return first
	}
	if stays := m.firstWaiter(on, true); first == nil || stays != nil && stays.Seq < first.Seq {
		return stays
	}
	return first
}

func (m *Machine) firstWaiter(on string, stays bool) (first *Job) {
	m.waiters.Ascend(waiter{on: on, stays: stays}, func(w waiter) bool {
		if w.on == on && w.stays == stays {
			first = m.ids[w.id]
		}
		return false
	})
	return first
}

func (m *Machine) settleOne(on string, old *Job) {
	other := m.ids[on]
	if other != nil && other.Status == Completed || old.Options().AfterFailure == AfterRun {
		m.stopWaiting(old, on)
		return
	}
	fate := "was deleted"
	switch {
	case other != nil && other.Status == Dead:
		fate = "is dead"
	case other != nil:
		fate = "was cancelled"
	}
	j := *old
	j.LastError = "job " + on + ", which it waited for, " + fate
	m.cancelNow(old, &j)
}

// stopWaiting takes one job off those that old waits for.
func (m *Machine) stopWaiting(old *Job, on string) {
	j := *old
	j.changeDetails(func(d *Details) {
		d.Waits = slices.DeleteFunc(slices.Clone(d.Waits), func(id string) bool { return id == on })
		if len(d.Waits) == 0 {
			d.Waits = nil
		}
	})
	if len(j.Details().Waits) == 0 {
		j.Status = m.readyStatus(&j)
	}
	m.put(old, &j)
}

// readyStatus is that of a job that waits for no other.
func (m *Machine) readyStatus(j *Job) Status {
	if j.RunAt > m.meta.Now {
		return Scheduled
	}
	return Unclaimed
}

// changeDetails gives j details of its own, changed; nil if they are all zero.
func (j *Job) changeDetails(how func(*Details)) {
	d := *j.Details()
	how(&d)
	if d.zero() {
		j.Det = nil
		return
	}
	j.Det = &d
}

func (d *Details) zero() bool {
	return len(d.History) == 0 && d.Progress == (Progress{}) && d.ProgressAt == 0 &&
		len(d.Waits) == 0 && d.CancelAt == 0 && d.TimeoutMs == 0 && d.Extra == "" && d.Log == ""
}

// cycle returns the index of the first job that waits, directly or not, for a
// cycle among the jobs that are added together, or -1.
func cycle(edges map[int][]int, n int) int {
	left := make([]int, n) // how many each still waits for
	waiters := make(map[int][]int)
	for i, on := range edges {
		left[i] = len(on)
		for _, k := range on {
			waiters[k] = append(waiters[k], i)
		}
	}
	var free []int
	for i := range n {
		if left[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		k := free[len(free)-1]
		free = free[:len(free)-1]
		for _, i := range waiters[k] {
			if left[i]--; left[i] == 0 {
				free = append(free, i)
			}
		}
	}
	return slices.IndexFunc(left, func(n int) bool { return n > 0 })
}
