package fsm

import "slices"

// This file has the jobs that wait for other jobs. A job is settled when it has ended
// or was removed, and no waiter has to change for it any more. Machine.unsettled has
// the ids of jobs that are not settled. All of this is derived from the jobs, so a
// restored machine continues in the same way.

// The limits of dependencies: how many jobs may wait for one job, and how many waiters
// one entry settles.
const (
	waitersMax = 10_000
	settleMax  = 10_000
)

// waiter is the place of a blocked job among the waiters of one job.
type waiter struct {
	on    string // id of the job that it waits for
	stays bool   // it keeps waiting if that job dies
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

// waiting counts the waiters of one job.
type waiting struct {
	all   int
	moved int // waiters that stop waiting if the job dies
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

// dropWaits removes from the index the jobs that old waited for and its replacement j
// does not. The remaining ids stand in the same order in both.
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

// retainWaited offers a completed or cancelled job to retention, or withdraws it:
// retention does not remove a job while other jobs wait for it.
func (m *Machine) retainWaited(id string) {
	j := m.ids.Get(id)
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
	m.markDirty(q)
}

// considerWaiters records in m.unsettled whether the job with that id has waiters to
// settle.
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
	switch j := m.ids.Get(id); {
	case j == nil, j.Status == Completed:
		return w.all > 0
	case j.Status == Dead, j.Status == Cancelled:
		return w.moved > 0
	}
	return false
}

// settle applies the end of jobs to the jobs that wait for them, within the budget of the
// entry.
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

// firstAffected returns the waiter with the lowest Seq that the end of job on changes.
func (m *Machine) firstAffected(on string) *Job {
	first := m.firstWaiter(on, false)
	if other := m.ids.Get(on); other != nil && other.Status != Completed {
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
			first = m.ids.Get(w.id)
		}
		return false
	})
	return first
}

func (m *Machine) settleOne(on string, old *Job) {
	status := m.statusOf(on)
	if status == Completed || old.Options().AfterFailure == AfterRun {
		m.stopWaiting(old, on)
		return
	}
	outcome := "was deleted"
	switch status {
	case Dead:
		outcome = "is dead"
	case Cancelled:
		outcome = "was cancelled"
	}
	j := old.Change()
	j.Exec.LastError = "job " + on + ", which it waited for, " + outcome
	m.cancelNow(old, j)
}

// stopWaiting removes job on from the jobs that old waits for.
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

// readyStatus returns the status of a job that waits for no other job.
func (m *Machine) readyStatus(j *Job) Status {
	if j.RunAt > m.meta.Now {
		return Scheduled
	}
	return Unclaimed
}

// changeDetails gives j a changed copy of its details, or nil if all of them are zero.
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
		len(d.Waits) == 0 && d.CancelAt == 0 && d.TimeoutMs == 0 && d.Log == "" && d.Owner == 0 && d.GivenBack == 0
}

// cycle returns the index of the first job that waits, directly or indirectly, for a
// cycle among the n jobs of one mutation, or -1. edges has the indices of the jobs that
// each job waits for.
func cycle(edges map[int][]int, n int) int {
	left := make([]int, n) // the number of jobs that each one still waits for
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

// This file has the index of jobs by the jobs that they were enqueued to run after. In
// contrast to the waiters it also has those that do not wait any more, for the graph of a
// job. Nothing decides by it.

// dependent is the place of a job under one of the jobs in its After.
type dependent struct {
	on  string // id of the earlier job, which may be removed
	seq uint64
	id  string
}

func byEarlier(a, b dependent) bool {
	if a.on != b.on {
		return a.on < b.on
	}
	return a.seq < b.seq
}

func (m *Machine) addDependents(j *Job) {
	for _, on := range j.Options().After {
		m.dependents.Set(dependent{on: on, seq: j.Seq, id: j.ID})
	}
}

func (m *Machine) removeDependents(j *Job) {
	for _, on := range j.Options().After {
		m.dependents.Delete(dependent{on: on, seq: j.Seq})
	}
}
