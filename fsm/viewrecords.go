package fsm

import (
	"math"
	"sort"
)

// JobsOfType is Jobs for one type. It visits no jobs of other types.
func (v *View) JobsOfType(name string, s Status, after uint64, fn func(*Job) bool) {
	if after == math.MaxUint64 {
		return
	}
	v.typed.Ascend(&Job{Type: name, Status: s, Seq: after + 1}, func(j *Job) bool {
		return j.Type == name && j.Status == s && fn(j)
	})
}

// CountOfType returns the number of jobs of a type in a status, in O(log² n).
func (v *View) CountOfType(name string, s Status) int {
	before := func(s Status) int {
		return sort.Search(v.typed.Len(), func(i int) bool {
			j, ok := v.typed.GetAt(i)
			return !ok || j.Type > name || j.Type == name && j.Status >= s
		})
	}
	return before(s+1) - before(s)
}

// JobsTagged is Jobs for the jobs with a tag. It visits no other jobs.
func (v *View) JobsTagged(tag string, s Status, after uint64, fn func(*Job) bool) {
	v.label(tagLabel(tag), s, after, fn)
}

// JobsOfBatch is Jobs for the jobs of a batch. It visits no other jobs.
func (v *View) JobsOfBatch(id string, s Status, after uint64, fn func(*Job) bool) {
	v.label(batchLabel(id), s, after, fn)
}

func (v *View) label(l label, s Status, after uint64, fn func(*Job) bool) {
	if after == math.MaxUint64 {
		return
	}
	v.tagged.Ascend(tagged{label: l, job: &Job{Status: s, Seq: after + 1}}, func(t tagged) bool {
		return t.label == l && t.job.Status == s && fn(t.job)
	})
}

// HeldBy calls fn for the jobs leased to a worker whose Seq is greater than after, in
// FIFO order, until fn returns false.
func (v *View) HeldBy(worker string, after uint64, fn func(*Job) bool) {
	if after == math.MaxUint64 {
		return
	}
	v.running.Ascend(&Job{Exec: &Execution{Worker: worker}, Seq: after + 1}, func(j *Job) bool {
		return j.Execution().Worker == worker && fn(j)
	})
}

// Held returns the number of jobs leased to a worker, in O(log² n).
func (v *View) Held(worker string) int {
	return v.runningBefore(worker+"\x00") - v.runningBefore(worker)
}

// runningBefore returns the number of running jobs of workers with smaller names.
func (v *View) runningBefore(worker string) int {
	low, high := 0, v.running.Len()
	for low < high {
		mid := (low + high) / 2
		if j, ok := v.running.GetAt(mid); ok && j.Execution().Worker < worker {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// Bytes returns the size of all payloads, results and logs.
func (v *View) Bytes() int64 { return v.bytes }

// Worker returns the registered worker of that name, or nil.
func (v *View) Worker(name string) *Worker {
	w, _ := v.workers.Get(&Worker{Name: name})
	return w
}

// Queue returns the settings of a type, or nil if it has none.
func (v *View) Queue(name string) *QueueSettings {
	q, _ := v.queues.Get(&QueueSettings{Name: name})
	return q
}

// Queues calls fn for the types with settings, in the order of names, until
// fn returns false.
func (v *View) Queues(fn func(*QueueSettings) bool) { v.queues.Scan(fn) }

// Turns calls fn for the groups in a rotation by type and group until fn
// returns false.
func (v *View) Turns(fn func(*Turn) bool) { v.turns.Scan(fn) }

// Cron returns the schedule of that name, or nil.
func (v *View) Cron(name string) *Cron {
	c, _ := v.crons.Get(&Cron{Name: name})
	return c
}

// Crons calls fn for the schedules whose name is from or later, in the order of names,
// until fn returns false.
func (v *View) Crons(from string, fn func(*Cron) bool) { v.crons.Ascend(&Cron{Name: from}, fn) }

// CronCount returns the number of schedules.
func (v *View) CronCount() int { return v.crons.Len() }

// Batch returns the batch with that id, or nil.
func (v *View) Batch(id string) *JobBatch {
	b, _ := v.batches.Get(&JobBatch{ID: id})
	return b
}

// Batches calls fn for the batches whose id is from or later, in the order of ids, until
// fn returns false.
func (v *View) Batches(from string, fn func(*JobBatch) bool) {
	v.batches.Ascend(&JobBatch{ID: from}, fn)
}

// Holds calls fn for the unique-key reservations for a period, by type and key, until fn
// returns false.
func (v *View) Holds(fn func(*Hold) bool) { v.holds.Scan(fn) }

// Requests calls fn for the remembered requests, oldest first, until fn returns
// false.
func (v *View) Requests(fn func(*RequestRecord) bool) { v.requests.Scan(fn) }
