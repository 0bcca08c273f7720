package fsm

import (
	"cmp"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
	"osqueue/fsm/usage"
)

// batches has the batches, by id. Those without pending jobs are in addition in the order in which retention
// removes them.
type batches struct{ btree.Table[JobBatch] }

func newBatches() batches {
	return batches{btree.NewTable(
		func(a, b *JobBatch) bool { return a.Id < b.Id },
		func(b *JobBatch) (int64, bool) { return idleSince(b), b.Pending() == 0 },
	)}
}

// idleSince returns when a batch without pending jobs ended, or was made if it has not
// ended, in ms.
func idleSince(b *JobBatch) int64 { return cmp.Or(b.EndedAtMs, b.CreatedAtMs) }

// check checks the new batch of an enqueue. It returns nil if there is no batch to
// make, for example because it exists already.
func (x *batches) check(n *fsmpb.NewBatch, now int64) (*JobBatch, Code) {
	if n == nil {
		return nil, OK
	}
	if n.Id == "" {
		return nil, NoID
	}
	if old := x.Find(&JobBatch{Id: n.Id}); old != nil {
		if old.CallbackOn != n.CallbackOn || old.Parent != n.Parent || !sameCallback(old.Callback, n.Callback) {
			return nil, IDTaken
		}
		return nil, OK
	}
	return &JobBatch{
		Id: strings.Clone(n.Id), CreatedAtMs: now, Callback: fsmpb.Clone(n.Callback), CallbackOn: n.CallbackOn,
		Account: strings.Clone(n.GetQuota().GetAccount()), Parent: strings.Clone(n.Parent),
	}, OK
}

// sameCallback reports whether two callbacks are the same request. Their ids, which the
// leader may have made, do not count.
func sameCallback(a, b *fsmpb.NewJob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return job.ContentOfNew(a) == job.ContentOfNew(b)
}

// countInBatch updates the counters of the batch of j, whose status changes; it is new if from is 0. A job that is
// deleted before its end counts as cancelled.
func (e *entry) countInBatch(j *Job, from, to Status) {
	old := e.batches.of(j)
	if old == nil {
		return
	}
	b := old.Recounted()
	if from == 0 {
		b.Total++
	}
	countEnded(b, from, -1)
	countEnded(b, to, +1)
	if from.Ended() && to.Ended() { // it ended differently: the batch ends again
		b.EndedAtMs = 0
	}
	e.putBatch(old, b)
}

// of returns the batch of j, or nil if it was removed. A batch that is younger than
// the job is a different one with the same id.
func (x *batches) of(j *Job) *JobBatch {
	b := x.Find(&JobBatch{Id: j.Opt.Batch})
	if b == nil || b.CreatedAtMs > j.CreatedAt {
		return nil
	}
	return b
}

// countEnded adds n (1 or -1) to the counter of the status in which a job ended. An edited
// document may have more or fewer jobs of the batch than were counted.
func countEnded(b *JobBatch, s Status, n int) {
	var c *uint64
	switch s {
	case Completed:
		c = &b.Completed
	case Dead:
		c = &b.Dead
	case Cancelled, Expired:
		c = &b.Cancelled
	default:
		return
	}
	switch {
	case n > 0:
		*c++
	case *c > 0:
		*c--
	}
	b.Total = max(b.Total, b.Completed+b.Dead+b.Cancelled)
}

// batchStatus returns the status of a batch for those that wait for it: 0 if it was removed, blocked while it is open, dead if a
// job of it has not completed.
func batchStatus(b *JobBatch) Status {
	switch {
	case b == nil:
		return 0
	case b.EndedAtMs == 0:
		return Blocked
	case b.Completed == b.Total:
		return Completed
	}
	return Dead
}

// batchOutcome describes a batch that has ended.
func batchOutcome(b *JobBatch) string {
	return itoa(int64(b.Completed)) + " completed, " + itoa(int64(b.Dead)) + " dead, " + itoa(int64(b.Cancelled)) + " cancelled"
}

// storeBatch stores b in place of old; nil stands for none.
func (m *Machine) storeBatch(old, b *JobBatch) {
	m.usage.Keep(usage.OfBatch(b), usage.OfBatch(old))
	m.batches.Set(old, b)
	if !m.waits.Empty() {
		id := cmp.Or(b, old).Id
		m.waits.Consider(job.ForBatch(id), batchStatus(b))
		m.waits.Consider(job.UntilEnd(id), batchStatus(b))
	}
}

// putBatch stores b, which replaces old, and ends it when its last job has ended.
func (e *entry) putBatch(old, b *JobBatch) {
	ends := b.Pending() == 0 && b.EndedAtMs == 0
	if b.Pending() > 0 {
		b.EndedAtMs = 0
	} else if ends {
		b.EndedAtMs = e.meta.NowMs
	}
	e.storeBatch(old, b)
	if ends {
		e.events = append(e.events, Event{Kind: BatchEnded, Name: b.Id})
		e.tell(outbox.News(outbox.BatchDone, tenants.NameFor("", b.Id), batchOutcome(b)))
	}
	e.callBack(b)
}

// callBack enqueues the callback of a batch, at most once, if its time has come.
func (e *entry) callBack(old *JobBatch) {
	due := old.EndedAtMs != 0
	switch CallbackOn(old.CallbackOn) {
	case CallbackCompleted:
		due = due && old.Completed == old.Total
	case CallbackFailed:
		due = old.Dead > 0
	}
	if old.Callback == nil || old.Called || !due {
		return
	}
	b := fsmpb.Copy(old)
	b.Called = true
	e.storeBatch(old, b)
	n := fsmpb.Clone(b.Callback)
	for n.Id == "" || e.ids.Get(n.Id) != nil { // the id is taken: the callback must not be lost
		n.Id += "-" + e.meta.LSN().String()
	}
	if o := n.Options; o != nil {
		o.Batch, o.Step, o.Unique, o.After, o.AfterNames, o.AfterBatches, o.AfterFailure = "", "", nil, nil, nil, nil, 0
	}
	e.add(n, "")
}

// batchEnd returns the first moment, in ms, at which retention removes a batch without
// pending jobs. It is after the ms in which the batch ended, so that a later batch with
// that id is younger than all jobs of this one.
func batchEnd(m *Meta, b *JobBatch) int64 {
	return job.Later(idleSince(b), max(m.Settings.RetainCompletedMs, 0), 1)
}

// retireBatches removes the batches that ended, or stayed empty, longer ago than the
// retention time.
func (m *Machine) retireBatches() {
	m.batches.Expire(
		func(b *JobBatch) bool { return batchEnd(m.meta, b) <= m.meta.NowMs && idleSince(b) != m.meta.NowMs },
		func(b *JobBatch) { m.storeBatch(b, nil) },
	)
}
