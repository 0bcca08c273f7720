package fsm

import (
	"cmp"
	"slices"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/uniques"
	"osqueue/fsm/waits"
)

// flowMax bounds the jobs of a flow that one mutation retries.
const flowMax = 10_000

// A flow is a batch whose jobs run after each other.
type flows struct{ *entry }

// retry makes a job, and those jobs of its batch that depend on it, directly or not, as new: all of them or none.
func (e flows) retry(op *fsmpb.RetryFlow) Result {
	first := e.ids.Get(op.JobId)
	if first == nil || op.Seq != 0 && first.Seq != op.Seq {
		return Result{Code: NotFound}
	}
	if first.Options().Batch == "" {
		return Result{Code: NoSuchBatch, Jobs: one(first)}
	}
	jobs, again := e.behind(first)
	if len(jobs) > flowMax {
		return Result{Code: TooManyWaiters, Jobs: one(first)}
	}
	if j, code := e.mayRetry(jobs); code != OK {
		return Result{Code: code, Jobs: one(j)}
	}
	for _, old := range jobs {
		j, ids := renewed(old, op.Fresh), slices.Clone(old.Details().Waits)
		for _, on := range job.EnqueuedAfter(j.Options().After, j.Options().AfterBatches) {
			if (again[on] || e.failedFor(j, on)) && !slices.Contains(ids, on) {
				ids = append(ids, on)
			}
		}
		line := e.sequences.taken(j.Options().Sequence)
		if len(ids) > 0 || line {
			j.ChangeDetails(func(d *Details) { d.Waits, d.InLine = ids, line })
		}
		if j.Status = j.FreeStatus(e.meta.NowMs); j.Status == old.Status {
			e.putAnew(old, j)
		} else {
			e.put(old, j)
		}
	}
	return Result{Jobs: one(e.ids.Get(first.ID)), Count: uint64(len(jobs))}
}

// failedFor reports whether j runs because of the failure of a job or batch, which settle has to find again.
func (e flows) failedFor(j *Job, on string) bool {
	s, _ := dependencies{e.Machine}.outcome(on)
	return j.Options().AfterFailure == AfterOnly && s != Completed && s.Ended()
}

// behind returns a job and those jobs of its batch that depend on it, at most one more than flowMax, in the order of Seq.
func (e flows) behind(first *Job) (jobs []*Job, ids map[string]bool) {
	jobs, ids = []*Job{first}, map[string]bool{first.ID: true}
	for at := 0; at < len(jobs); at++ { // the loop adds jobs
		e.waits.Dependents.Ascend(waits.Dependent{On: jobs[at].ID}, func(d waits.Dependent) bool {
			if d.On != jobs[at].ID || len(jobs) > flowMax {
				return false
			}
			if j := e.ids.Get(d.ID); j.Options().Batch == first.Options().Batch && !ids[d.ID] {
				jobs, ids[d.ID] = append(jobs, j), true
			}
			return true
		})
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Seq, b.Seq) })
	return jobs, ids
}

// mayRetry returns the first job that cannot be as new, and why.
func (e flows) mayRetry(jobs []*Job) (*Job, Code) {
	keys := make(map[uniques.Holder]bool)
	for _, j := range jobs {
		if j.Status == InProgress {
			return j, WrongStatus
		}
		u := j.Options().Unique
		if u.Key == "" || u.Scope == job.UniqueNone {
			continue
		}
		key := uniques.Holder{Type: j.Type, Key: u.Key}
		if keys[key] || e.uniques.Taken(e.ids, j) {
			return j, UniqueTaken
		}
		keys[key] = true
	}
	return nil, OK
}
