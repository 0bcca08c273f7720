package fsm

import (
	"cmp"
	"strings"

	"osqueue/fsm/fsmpb"
)

func byBatch(a, b *JobBatch) bool { return a.ID < b.ID }

func byIdle(a, b *JobBatch) bool {
	if a, b := a.idleSince(), b.idleSince(); a != b {
		return a < b
	}
	return a.ID < b.ID
}

// idleSince is when a batch without pending jobs ended, or was made.
func (b *JobBatch) idleSince() int64 { return cmp.Or(b.EndedAt, b.CreatedAt) }

// checkBatch looks at the new batch of an enqueue. It is nil if there is none to
// make, as when it has been made before.
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
	}, OK
}

// sameCallback: the id, which the leader may have made, does not count.
func sameCallback(a, b *fsmpb.NewJob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameRequest(a, b)
}

// countInBatch keeps the batch of a job that is new (from 0) or has changed its
// status.
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
	if from.ended() && j.Status.ended() { // in another way now: so does the batch
		b.EndedAt = 0
	}
	m.putBatch(old, &b)
}

// countRemoved counts a job that was deleted before its end.
func (m *Machine) countRemoved(j *Job) {
	old := m.batchOf(j)
	if old == nil {
		return
	}
	b := *old
	b.count(Cancelled, +1)
	m.putBatch(old, &b)
}

// batchOf is the batch that j belongs to; nil if it is gone. One that is younger
// than the job is another one.
func (m *Machine) batchOf(j *Job) *JobBatch {
	b, ok := m.batches.Get(&JobBatch{ID: j.Opt.Batch})
	if !ok || b.CreatedAt > j.CreatedAt {
		return nil
	}
	return b
}

// count counts a job in, or out again, by the status that it has ended in. A
// document that was edited may have more jobs of the batch than were counted,
// or fewer.
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

// putBatch stores b, which replaces old, and ends it when its last job has.
func (m *Machine) putBatch(old, b *JobBatch) {
	if old.Pending() == 0 {
		m.idle.Delete(old)
	}
	if b.Pending() > 0 {
		b.EndedAt = 0
		m.batches.Set(b)
		return
	}
	if b.EndedAt != 0 {
		m.storeIdle(b)
		return
	}
	b.EndedAt = m.meta.Now
	m.storeIdle(b)
	m.events = append(m.events, Event{Kind: BatchEnded, Name: b.ID})
	m.callBack(b)
}

// endEmpty ends a new batch of which all jobs were there already: none will.
func (m *Machine) endEmpty(id string) {
	old, _ := m.batches.Get(&JobBatch{ID: id})
	if old.Total == 0 {
		b := *old
		m.putBatch(old, &b)
	}
}

// storeIdle stores a batch without pending jobs: one that has ended, or one that
// is open and has none yet.
func (m *Machine) storeIdle(b *JobBatch) {
	m.idle.Set(b)
	m.batches.Set(b)
}

// callBack enqueues the callback of a batch that has ended, once.
func (m *Machine) callBack(old *JobBatch) {
	if old.Callback == nil || old.Called || old.CallbackOn == CallbackCompleted && old.Completed != old.Total {
		return
	}
	b := *old
	b.Called = true
	m.storeIdle(&b)
	n := cloneNewJob(b.Callback)
	for n.Id == "" || m.ids[n.Id] != nil { // somebody took it: the callback must not be lost
		n.Id += "-" + m.meta.LSN.String()
	}
	n.Batch, n.Unique, n.After, n.AfterFailure = "", nil, nil, 0
	m.add(n, "")
}

// batchEnd is the first moment at which a batch without pending jobs is too old:
// never the ms in which it ended, as a later batch of that id must be younger
// than its jobs.
func (m *Machine) batchEnd(b *JobBatch) int64 {
	return later(b.idleSince(), max(m.meta.Settings.RetainCompletedMs, 0), 1)
}

// retireBatches removes the batches that have ended, or were left empty, for too
// long.
func (m *Machine) retireBatches() {
	for {
		b, ok := m.idle.Min()
		if !ok || m.batchEnd(b) > m.meta.Now || b.idleSince() == m.meta.Now {
			return
		}
		m.idle.Delete(b)
		m.batches.Delete(b)
	}
}
