package queuefile

import (
	"math"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// pending is how many jobs of the batch have not ended by its own counts; 0 if
// these contradict each other, which the machine will refuse.
func pending(b *fsm.JobBatch) uint64 {
	left := b.Total
	for _, n := range []uint64{b.Completed, b.Dead, b.Cancelled} {
		if n > left {
			return 0
		}
		left -= n
	}
	return left
}

// batchOf is the batch that j counts in, or nil. A batch that is younger than
// the job has nothing but the id of the job's.
func (d *decoder) batchOf(j *fsm.Job) *fsm.JobBatch {
	if len(d.doc.Batches) == 0 || j.Options().Batch == "" {
		return nil
	}
	if d.batches == nil {
		d.batches = make(map[string]*fsm.JobBatch, len(d.doc.Batches))
		for _, b := range d.doc.Batches {
			d.batches[b.ID] = b
		}
	}
	b := d.batches[j.Options().Batch]
	if b == nil || b.CreatedAt > j.CreatedAt {
		return nil
	}
	return b
}

// recount makes batches agree with the jobs that are there: what is missing has
// completed. It returns the callbacks of the batches that have ended by that.
func (d *decoder) recount(jobs []*fsm.Job) (called []*fsm.Job) {
	there := make(map[*fsm.JobBatch]uint64, len(d.doc.Batches))
	for _, j := range jobs {
		if b := d.batchOf(j); b != nil && !hasEnded(j) {
			there[b]++
		}
	}
	for _, b := range d.doc.Batches {
		if b.Total > math.MaxInt64 {
			continue // not ours; the machine will say so
		}
		switch was, is := pending(b), there[b]; {
		case is < was:
			b.Completed += was - is
		case is > was: // put back by hand
			b.Total += is - was
			b.EndedAt = 0
		}
		if pending(b) == 0 && b.Total > 0 && b.EndedAt == 0 {
			called = append(called, d.end(b)...)
		}
	}
	return d.enter(called, jobs)
}

// end ends a batch and returns its callback, if it is its time.
func (d *decoder) end(b *fsm.JobBatch) []*fsm.Job {
	b.EndedAt = d.doc.Meta.Now
	all := b.CallbackOn == fsm.CallbackEnded || b.Completed == b.Total
	if b.Callback == nil || b.Called || !all {
		return nil
	}
	b.Called = true
	return []*fsm.Job{d.fresh(b.Callback)}
}

// fresh is a callback as the machine enqueues it: in no batch, and neither
// unique nor waiting for others.
func (d *decoder) fresh(n *fsmpb.NewJob) *fsm.Job {
	o := optionsOf(n)
	o.Batch, o.Unique, o.After, o.AfterFailure = "", fsm.Unique{}, nil, 0
	j := &fsm.Job{
		ID: n.Id, Type: n.Type, Payload: n.Payload, Priority: n.Priority,
		RunAt: n.RunAtMs, LeaseMs: n.LeaseMs, MaxAttempts: fsm.MaxAttemptsUnset,
		CreatedAt: d.doc.Meta.Now, Opt: optionsOrNil(&o),
	}
	if n.MaxAttempts != nil {
		j.MaxAttempts = *n.MaxAttempts
	}
	j.Status = d.readyStatus(j)
	return j
}

// enter gives new jobs their places, but for those whose id is taken.
func (d *decoder) enter(called, jobs []*fsm.Job) (entered []*fsm.Job) {
	if len(called) == 0 {
		return nil
	}
	taken := map[string]bool{"": true}
	for _, j := range jobs {
		taken[j.ID] = true
	}
	for _, j := range called {
		if taken[j.ID] {
			continue
		}
		taken[j.ID] = true
		d.doc.Meta.LastSeq++
		j.Seq = d.doc.Meta.LastSeq
		entered = append(entered, j)
	}
	return entered
}
