package fsm

import (
	"slices"

	"osqueue/fsm/btree"
)

// waits has the jobs that wait for other jobs. A job is settled when it has ended or was
// removed, and no waiter has to change for it any more. All of this is derived from the
// jobs, so a restored machine continues in the same way.
type waits struct {
	waiters   *btree.Tree[waiter] // blocked jobs by the job that they wait for
	waited    map[string]waiting  // their number, by the job that they wait for
	unsettled *btree.Tree[string] // ids of jobs that are not settled
	// dependents has the jobs by the jobs that they were enqueued to run after. In contrast to
	// waiters it also has those that do not wait any more, for the graph of a job. Nothing
	// decides by it. It is copy-on-write.
	dependents *btree.Tree[dependent]
}

func newWaits() waits {
	return waits{
		waiters:    btree.New(byWaited),
		waited:     make(map[string]waiting),
		unsettled:  btree.New(func(a, b string) bool { return a < b }),
		dependents: btree.New(byEarlier),
	}
}

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

// count adds j to the waiters of a job (n is 1), or takes it out (n is -1).
func (w *waits) count(j *Job, on string, n int) {
	one := waiter{on: on, stays: j.Options().AfterFailure == AfterBlock, seq: j.Seq, id: j.ID}
	if n > 0 {
		w.waiters.Set(one)
	} else {
		w.waiters.Delete(one)
	}
	c := w.waited[on]
	c.all += n
	if !one.stays {
		c.moved += n
	}
	if w.waited[on] = c; c.all == 0 {
		delete(w.waited, on)
	}
}

// consider records whether the job with that id and status has waiters to settle. The
// status of a removed job is 0.
func (w *waits) consider(id string, s Status) {
	if len(w.waited) == 0 && w.unsettled.Len() == 0 {
		return
	}
	n := 0
	switch s {
	case 0, Completed:
		n = w.waited[id].all
	case Dead, Cancelled, Expired:
		n = w.waited[id].moved
	}
	if n > 0 {
		w.unsettled.Set(id)
	} else {
		w.unsettled.Delete(id)
	}
}

// next returns the id of the waiter of a job with the lowest Seq: among all waiters, or
// among those that stop waiting if the job dies.
func (w *waits) next(on string, all bool) string {
	next := w.first(on, false)
	if stays := w.first(on, true); all && stays.id != "" && (next.id == "" || stays.seq < next.seq) {
		return stays.id
	}
	return next.id
}

func (w *waits) first(on string, stays bool) (first waiter) {
	w.waiters.Ascend(waiter{on: on, stays: stays}, func(one waiter) bool {
		if one.on == on && one.stays == stays {
			first = one
		}
		return false
	})
	return first
}

// countWaits adds j to the waiters of the jobs that it waits for (n is 1), or takes it out
// (n is -1). It leaves out the jobs in stay, which stand in the same order.
func (m *Machine) countWaits(j *Job, stay []string, n int) {
	for _, on := range j.Details().Waits {
		if len(stay) > 0 && stay[0] == on {
			stay = stay[1:]
			continue
		}
		m.waits.count(j, on, n)
		m.reviewWaited(on)
	}
}

// reviewWaited brings up to date what depends on the number of jobs that wait for the job
// with that id.
func (m *Machine) reviewWaited(id string) {
	j := m.ids.Get(id)
	if j == nil {
		m.waits.consider(id, 0)
		return
	}
	m.waits.consider(id, j.Status)
	if j.Status.Ended() {
		m.types.retain(j, m.waits.waited[id].all > 0)
	}
}

// settle applies the end of jobs to the jobs that wait for them, within the budget of the
// entry.
func (e *entry) settle() {
	e.settleSequences()
	for e.budget > 0 {
		on, ok := e.waits.unsettled.Min()
		if !ok {
			return
		}
		e.budget--
		e.settleOne(on)
	}
}

func (e *entry) settleOne(on string) {
	j := e.ids.Get(on)
	old := e.ids.Get(e.waits.next(on, j == nil || j.Status == Completed))
	status := e.statusOf(on)
	if status == Completed || old.Options().AfterFailure == AfterRun {
		e.stopWaiting(old, on)
		return
	}
	outcome := "was deleted"
	switch status {
	case Dead:
		outcome = "is dead"
	case Cancelled:
		outcome = "was cancelled"
	case Expired:
		outcome = "has expired"
	}
	cancelled := old.Change()
	cancelled.Exec.LastError = "job " + on + ", which it waited for, " + outcome
	e.endWaiting(old, cancelled, Cancelled)
}

// stopWaiting removes job on from the jobs that old waits for.
func (e *entry) stopWaiting(old *Job, on string) {
	j := *old
	j.ChangeDetails(func(d *Details) {
		d.Waits = slices.DeleteFunc(slices.Clone(d.Waits), func(id string) bool { return id == on })
		if len(d.Waits) == 0 {
			d.Waits = nil
		}
	})
	j.Status = j.FreeStatus(e.meta.NowMs)
	e.put(old, &j)
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

func (w *waits) addDependents(j *Job) {
	for _, on := range j.Options().After {
		w.dependents.Set(dependent{on: on, seq: j.Seq, id: j.ID})
	}
}

func (w *waits) removeDependents(j *Job) {
	for _, on := range j.Options().After {
		w.dependents.Delete(dependent{on: on, seq: j.Seq})
	}
}
