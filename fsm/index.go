package fsm

import (
	"cmp"
	"strings"

	"github.com/tidwall/btree"
)

// newTree makes a tree without locks of its own: the machine's owner
// serialises writes, and copies are never written.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func byStatusSeq(a, b *Job) bool {
	if a.Status != b.Status {
		return a.Status < b.Status
	}
	return a.Seq < b.Seq
}

// byClaimOrder is higher priority first, then first in first out.
func byClaimOrder(a, b *Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Seq < b.Seq
}

func byHolder(a, b *Job) bool {
	if c := strings.Compare(a.Worker, b.Worker); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

func byEnd(a, b *Job) bool {
	if a.FinishedAt != b.FinishedAt {
		return a.FinishedAt < b.FinishedAt
	}
	return a.Seq < b.Seq
}

func byName(a, b *Worker) bool { return a.Name < b.Name }

func byToken(a, b *ClaimRecord) bool { return a.firstToken() < b.firstToken() }

func byTime(a, b timer) bool {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c < 0
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.key < b.key
}

// put stores j, which replaces old (nil for a new job), in every index.
func (m *Machine) put(old, j *Job) {
	m.ids[j.ID] = j
	if old != nil && old.Status == j.Status {
		m.jobs.Set(j)
		if j.Status == InProgress {
			m.running.Set(j)
		}
		return
	}
	from := Status(0)
	if old != nil {
		from = old.Status
		m.unindex(old)
	}
	m.index(j)
	m.events = append(m.events, Event{Job: j, From: from})
}

// remove takes j out of the state.
func (m *Machine) remove(j *Job) {
	m.unindex(j)
	delete(m.ids, j.ID)
	m.events = append(m.events, Event{Kind: JobRemoved, Job: j, From: j.Status, Removed: true})
}

func (m *Machine) index(j *Job) {
	q := m.queue(j.Type)
	q.counts[j.Status]++
	m.counts[j.Status]++
	m.jobs.Set(j)
	switch j.Status {
	case Scheduled:
		m.timers.Set(timer{at: j.RunAt, kind: timerDue, key: j.ID})
	case Unclaimed:
		m.ready.Set(j)
		q.ready.Set(j)
	case InProgress:
		m.running.Set(j)
		j.timerAt = m.leaseEnd(j)
		m.timers.Set(timer{at: j.timerAt, kind: timerLease, key: j.ID})
	case Completed, Cancelled:
		m.retained.Set(j)
	}
}

func (m *Machine) unindex(j *Job) {
	q := m.queues[j.Type]
	q.counts[j.Status]--
	m.counts[j.Status]--
	m.jobs.Delete(j)
	switch j.Status {
	case Scheduled:
		m.timers.Delete(timer{at: j.RunAt, kind: timerDue, key: j.ID})
	case Unclaimed:
		m.ready.Delete(j)
		q.ready.Delete(j)
	case InProgress:
		m.running.Delete(j)
		m.timers.Delete(timer{at: j.timerAt, kind: timerLease, key: j.ID})
	case Completed, Cancelled:
		m.retained.Delete(j)
	}
	if q.counts == (Counts{}) {
		delete(m.queues, j.Type)
	}
}

// queue returns the queue of a type, which it makes when there is none. The
// queue's name is the one copy of the type's string that its jobs share.
func (m *Machine) queue(name string) *queue {
	q := m.queues[name]
	if q == nil {
		name = strings.Clone(name)
		q = &queue{name: name, ready: newTree(byClaimOrder)}
		m.queues[name] = q
	}
	return q
}
