package fsm

import (
	"cmp"
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
)

func byBatch(a, b *JobBatch) bool { return a.ID < b.ID }

func byIdle(a, b *JobBatch) bool {
	if a, b := a.idleSince(), b.idleSince(); a != b {
		return a < b
	}
	return a.ID < b.ID
}

// idleSince returns when a batch without pending jobs ended, or was made if it has not
// ended, in ms.
func (b *JobBatch) idleSince() int64 { return cmp.Or(b.EndedAt, b.CreatedAt) }

// checkBatch checks the new batch of an enqueue. It returns nil if there is no batch to
// make, for example because it exists already.
func (m *Machine) checkBatch(n *fsmpb.NewBatch) (*JobBatch, Code) {
	if n == nil {
		return nil, OK
	}
	if n.Id == "" {
		return nil, NoID
	}
	on := narrow[CallbackOn](n.CallbackOn)
	if old, ok := m.batches.Get(&JobBatch{ID: n.Id}); ok {
		if old.CallbackOn != on || !sameCallback(old.Callback, n.Callback) {
			return nil, IDTaken
		}
		return nil, OK
	}
	return &JobBatch{
		ID: strings.Clone(n.Id), CreatedAt: m.meta.Now, Callback: cloneNewJob(n.Callback), CallbackOn: on,
		Account: strings.Clone(n.GetQuota().GetAccount()),
	}, OK
}

// sameCallback reports whether two callbacks are the same request. Their ids, which the
// leader may have made, do not count.
func sameCallback(a, b *fsmpb.NewJob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return contentOfNew(a) == contentOfNew(b)
}

// countInBatch updates the counters of the batch of j, which has changed its status from
// from, or is new (0).
func (m *Machine) countInBatch(j *Job, from Status) {
	old := m.batchOf(j)
	if old == nil {
		return
	}
	b := *old
	if from == 0 {
		b.Total++
	}
	b.count(from, -1)
	b.count(j.Status, +1)
	if from.ended() && j.Status.ended() { // it ended differently: the batch ends again
		b.EndedAt = 0
	}
	m.putBatch(old, &b)
}

// countRemoved counts a job that was deleted before its end as cancelled.
func (m *Machine) countRemoved(j *Job) {
	old := m.batchOf(j)
	if old == nil {
		return
	}
	b := *old
	b.count(Cancelled, +1)
	m.putBatch(old, &b)
}

// batchOf returns the batch of j, or nil if it was removed. A batch that is younger than
// the job is a different one with the same id.
func (m *Machine) batchOf(j *Job) *JobBatch {
	b, ok := m.batches.Get(&JobBatch{ID: j.Opt.Batch})
	if !ok || b.CreatedAt > j.CreatedAt {
		return nil
	}
	return b
}

// count adds n (1 or -1) to the counter of the status in which a job ended. An edited
// document may have more or fewer jobs of the batch than were counted.
func (b *JobBatch) count(s Status, n int) {
	var c *uint64
	switch s {
	case Completed:
		c = &b.Completed
	case Dead:
		c = &b.Dead
	case Cancelled:
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

// outcome describes a batch that has ended.
func (b *JobBatch) outcome() string {
	return itoa(int64(b.Completed)) + " completed, " + itoa(int64(b.Dead)) + " dead, " + itoa(int64(b.Cancelled)) + " cancelled"
}

// putBatch stores b, which replaces old, and ends it when its last job has ended.
func (m *Machine) putBatch(old, b *JobBatch) {
	if old.Pending() == 0 {
		m.idle.Delete(old)
	}
	if b.Pending() > 0 {
		b.EndedAt = 0
		m.setBatch(b)
		return
	}
	if b.EndedAt != 0 {
		m.storeIdle(b)
		return
	}
	b.EndedAt = m.meta.Now
	m.storeIdle(b)
	m.events = append(m.events, Event{Kind: BatchEnded, Name: b.ID})
	m.tell(outbox.Event{Kind: outbox.BatchDone, Subject: tenants.NameFor("", b.ID), Text: b.outcome()})
	m.callBack(b)
}

// endEmpty ends a new batch if its mutation named jobs but added none: no other job would
// end it.
func (m *Machine) endEmpty(id string) {
	old, _ := m.batches.Get(&JobBatch{ID: id})
	if old.Total == 0 {
		b := *old
		m.putBatch(old, &b)
	}
}

// storeIdle stores a batch without pending jobs, ended or open and empty.
func (m *Machine) storeIdle(b *JobBatch) {
	m.idle.Set(b)
	m.setBatch(b)
}

// callBack enqueues the callback of a batch that has ended, at most once.
func (m *Machine) callBack(old *JobBatch) {
	if old.Callback == nil || old.Called || old.CallbackOn == CallbackCompleted && old.Completed != old.Total {
		return
	}
	b := *old
	b.Called = true
	m.storeIdle(&b)
	n := cloneNewJob(b.Callback)
	for n.Id == "" || m.ids.Get(n.Id) != nil { // the id is taken: the callback must not be lost
		n.Id += "-" + m.meta.LSN.String()
	}
	n.Batch, n.Unique, n.After, n.AfterFailure = "", nil, nil, 0
	m.add(n, "")
}

// batchEnd returns the first moment, in ms, at which retention removes a batch without
// pending jobs. It is after the ms in which the batch ended, so that a later batch with
// that id is younger than all jobs of this one.
func (m *Machine) batchEnd(b *JobBatch) int64 {
	return later(b.idleSince(), max(m.meta.Settings.RetainCompletedMs, 0), 1)
}

// retireBatches removes the batches that ended, or stayed empty, longer ago than the
// retention time.
func (m *Machine) retireBatches() {
	for {
		b, ok := m.idle.Min()
		if !ok || m.batchEnd(b) > m.meta.Now || b.idleSince() == m.meta.Now {
			return
		}
		m.idle.Delete(b)
		m.keep(b.kept(), -1)
		m.batches.Delete(b)
	}
}
