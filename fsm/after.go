package fsm

import (
	"slices"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/tenants"
)

// The limits of dependencies: how many jobs may wait for one job, and how many waiters
// one entry settles.
const (
	waitersMax = 10_000
	settleMax  = 10_000
)

// dependencies keeps the graph of waiting jobs up to date.
type dependencies struct{ *Machine }

// count adds j to the waiters of what it waits for (n is 1), or takes it out
// (n is -1). It leaves out the ids in stay, which stand in the same order.
func (m dependencies) count(j *Job, stay []string, n int) {
	for _, on := range j.Details().Waits {
		if len(stay) > 0 && stay[0] == on {
			stay = stay[1:]
			continue
		}
		m.waits.Count(j, on, n)
		m.review(on)
	}
}

// changed counts a job whose status has changed under the jobs that it was enqueued to run after.
func (m dependencies) changed(old, j *Job) {
	if j.Opt == nil || len(j.Opt.After) == 0 || old.Status.Ended() == j.Status.Ended() {
		return
	}
	m.waits.CountAlive(old, -1)
	m.waits.CountAlive(j, +1)
	m.reviewAfter(j)
}

// reviewAfter is review for the jobs that j was enqueued to run after.
func (m dependencies) reviewAfter(j *Job) {
	for _, on := range j.Options().After {
		m.review(on)
	}
}

// review brings up to date what depends on the number of jobs that depend on the one
// with that id.
func (m dependencies) review(id string) {
	if batch, ok := job.BatchOf(id); ok {
		m.waits.Consider(id, batchStatus(m.batches.Find(&JobBatch{Id: batch})))
		return
	}
	j := m.ids.Get(id)
	if j == nil {
		m.waits.Consider(id, 0)
		return
	}
	m.waits.Consider(id, j.Status)
	if j.Status.Ended() {
		m.types.retain(j, m.waits.Keeps(id))
	}
}

// settle applies the end of jobs to the jobs that wait for them, within the budget of the
// entry.
func (e *entry) settle() {
	e.settleSequences()
	for e.budget > 0 {
		on, ok := e.waits.First()
		if !ok {
			return
		}
		e.budget--
		e.settleOne(on)
	}
}

// outcome returns the status of what a job waits for, and whether it was removed.
func (m dependencies) outcome(on string) (status Status, gone bool) {
	if batch, ok := job.BatchOf(on); ok {
		b := m.batches.Find(&JobBatch{Id: batch})
		return batchStatus(b), b == nil
	}
	return m.statusOf(on), m.ids.Get(on) == nil
}

func (e *entry) settleOne(on string) {
	status, gone := dependencies{e.Machine}.outcome(on)
	what := "job " + on
	if batch, ok := job.BatchOf(on); ok {
		what = "batch " + tenants.NameFor("", batch)
	}
	old := e.ids.Get(e.waits.Next(on, gone || status == Completed))
	if failure := job.FailureOf(old, on); status == Completed || failure == AfterRun || failure == AfterOnly {
		e.stopWaiting(old, on, status != Completed)
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
	e.endWaiting(old, withError(old, what+", which it waited for, "+outcome), Cancelled)
}

// withError returns a copy of a job with another last error.
func withError(old *Job, why string) *Job {
	j := old.Change()
	j.Exec.LastError = why
	return j
}

// stopWaiting removes an id from those that old waits for.
func (e *entry) stopWaiting(old *Job, on string, failed bool) {
	j := *old
	only := job.FailureOf(old, on) == AfterOnly
	j.ChangeDetails(func(d *Details) {
		d.Waits = slices.DeleteFunc(slices.Clone(d.Waits), func(id string) bool { return id == on })
		if len(d.Waits) == 0 {
			d.Waits = nil
		}
		d.FailedBefore = d.FailedBefore || only && failed
	})
	if d := j.Details(); only && len(d.Waits) == 0 && !d.FailedBefore {
		e.endWaiting(old, withError(old, "all that it waited for completed"), Cancelled)
		return
	}
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

// of returns what a new job waits for: the ids in after whose jobs have not completed, and batches. A job that runs only
// after a failure waits for all, so that settle decides on it.
func (m dependencies) of(n *fsmpb.NewJob) []string {
	o := n.Options
	if o == nil {
		return nil
	}
	var ids []string
	for _, on := range job.EnqueuedAfter(o.After, o.AfterBatches) {
		if s, _ := m.outcome(on); s != Completed || o.AfterFailure == uint32(AfterOnly) {
			ids = append(ids, on)
		}
	}
	return job.CloneStrings(ids)
}
