package document

import (
	"math"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// pending returns the number of jobs of the batch that have not ended by its own counts. It
// returns 0 if the counts contradict each other; the machine refuses such a batch.
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

// batchOf returns the batch that counts j, or nil. A batch that is younger than the job
// only shares the id with the job's batch.
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

// recount makes the batches consistent with the jobs in the document: a missing job has
// completed. It returns the callbacks of the batches that end by this.
func (d *decoder) recount(jobs []*fsm.Job) (called []*fsm.Job) {
	there := make(map[*fsm.JobBatch]uint64, len(d.doc.Batches))
	for _, j := range jobs {
		if b := d.batchOf(j); b != nil && !hasEnded(j) {
			there[b]++
		}
	}
	for _, b := range d.doc.Batches {
		if b.Total > math.MaxInt64 {
			continue // not written by this program; the machine refuses it
		}
		switch was, is := pending(b), there[b]; {
		case is < was:
			b.Completed += was - is
		case is > was: // a person put jobs back
			b.Total += is - was
			b.EndedAt = 0
		}
		if pending(b) == 0 && b.Total > 0 && b.EndedAt == 0 {
			called = append(called, d.end(b)...)
		}
	}
	return d.enter(called, jobs)
}

// end ends a batch and returns its callback, if the callback is due.
func (d *decoder) end(b *fsm.JobBatch) []*fsm.Job {
	b.EndedAt = d.doc.Meta.Now
	all := b.CallbackOn == fsm.CallbackEnded || b.Completed == b.Total
	if b.Callback == nil || b.Called || !all {
		return nil
	}
	b.Called = true
	return []*fsm.Job{d.fresh(b.Callback)}
}

// fresh returns a callback as the machine enqueues it: without batch, unique key and
// dependencies.
func (d *decoder) fresh(n *fsmpb.NewJob) *fsm.Job {
	o := optionsOf(n)
	o.Batch, o.Unique, o.After, o.AfterFailure = "", fsm.Unique{}, nil, 0
	j := &fsm.Job{
		ID: n.Id, Type: n.Type, Priority: n.Priority,
		RunAt: n.RunAtMs, Exec: &fsm.Execution{LeaseMs: n.LeaseMs}, MaxAttempts: fsm.MaxAttemptsUnset,
		CreatedAt: d.doc.Meta.Now, Opt: optionsOrNil(&o),
	}
	j.SetPayload(n.Payload)
	if n.MaxAttempts != nil {
		j.MaxAttempts = *n.MaxAttempts
	}
	j.Status = d.readyStatus(j)
	return j
}

// enter assigns positions to new jobs and skips jobs whose id is taken.
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
