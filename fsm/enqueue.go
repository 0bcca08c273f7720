package fsm

import (
	"bytes"
	"slices"
	"strings"

	"osqueue/fsm/fsmpb"
)

// enqueue adds all jobs or none. An id that is there already with the same
// content is the same request again: it is answered, not added.
func (m *Machine) enqueue(op *fsmpb.Enqueue) Result {
	seq, events := m.meta.LastSeq, len(m.events)
	res := Result{Jobs: make([]*Job, len(op.Jobs)), Codes: make([]Code, len(op.Jobs))}
	for i, n := range op.Jobs {
		j, code := m.enqueueOne(n)
		if !code.Done() {
			m.withdraw(res.Jobs[:i], seq)
			m.events = slices.Delete(m.events, events, len(m.events))
			return refused(code, i, len(op.Jobs))
		}
		res.Jobs[i], res.Codes[i] = j, code
	}
	return res
}

func (m *Machine) enqueueOne(n *fsmpb.NewJob) (*Job, Code) {
	if n.Id == "" {
		return nil, NoID
	}
	if old := m.ids[n.Id]; old != nil {
		if !sameContent(old, n) {
			return nil, IDTaken
		}
		return old, Duplicate
	}
	j := m.newJob(n)
	m.put(nil, j)
	return j, OK
}

// refused is the answer to n new jobs of which number i was refused, and the
// others with it. Only Codes[i] is not OK.
func refused(code Code, i, n int) Result {
	res := Result{Code: code, Jobs: make([]*Job, n), Codes: make([]Code, n)}
	res.Codes[i] = code
	return res
}

// withdraw undoes the additions of an enqueue that is refused: the jobs behind
// seq. One that the enqueue named twice is there twice.
func (m *Machine) withdraw(jobs []*Job, seq uint64) {
	for _, j := range jobs {
		if j.Seq > seq && m.ids[j.ID] != nil {
			m.remove(j)
		}
	}
	m.meta.LastSeq = seq
}

// newJob copies what it keeps, so that a long-lived job does not hold its
// whole log entry in memory.
func (m *Machine) newJob(n *fsmpb.NewJob) *Job {
	m.meta.LastSeq++
	j := &Job{
		Seq:         m.meta.LastSeq,
		ID:          strings.Clone(n.Id),
		Type:        m.queue(n.Type).name,
		Payload:     cloneBytes(n.Payload),
		Status:      Unclaimed,
		Priority:    n.Priority,
		MaxAttempts: MaxAttemptsUnset,
		CreatedAt:   m.meta.Now,
		RunAt:       n.RunAtMs,
		LeaseMs:     n.LeaseMs,
	}
	if n.MaxAttempts != nil {
		j.MaxAttempts = *n.MaxAttempts
	}
	if j.RunAt > m.meta.Now {
		j.Status = Scheduled
	}
	return j
}

// sameContent reports whether n is the request that made j. RunAt does not
// count: it may have been reckoned from a delay, and j's own moves on.
func sameContent(j *Job, n *fsmpb.NewJob) bool {
	limit := int32(MaxAttemptsUnset)
	if n.MaxAttempts != nil {
		limit = *n.MaxAttempts
	}
	return j.Type == n.Type && j.Priority == n.Priority && j.MaxAttempts == limit && j.LeaseMs == n.LeaseMs &&
		(j.Payload == nil) == (n.Payload == nil) && bytes.Equal(j.Payload, n.Payload)
}

// cloneBytes keeps the difference between absent and empty.
func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
