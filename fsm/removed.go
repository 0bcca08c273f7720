package fsm

import (
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// A producer that lost the answer to an enqueue repeats it, and so does a worker that
// lost the answer to a report. Retention may have removed the job before that. The
// machine therefore keeps a record of each job that retention removes
// soon after its end: its id, its token, how it ended, and a hash of its content. A
// repetition gets the answer that the job itself would have given. The records are
// request records under keys that no caller can send. They count in Settings.RequestCount
// like the records of callers without a tenant, and RequestCount removes them first.

// repeatMs is how long after its end, in ms, a removed job is known by its id.
const repeatMs = 5 * 60 * 1000

// removedPrefix is the prefix of the request keys of removed jobs.
const removedPrefix = "\x00removed:"

// rememberRemoved keeps the record of a job that retention removes.
func (x *requests) rememberRemoved(j *Job, at *Meta) {
	if later(j.Execution().FinishedAt, repeatMs) < at.NowMs {
		return
	}
	key := removedPrefix + j.ID
	of := &struct { // in one allocation
		record  RequestRecord
		content job.Content
		item    fsmpb.RequestItem
		items   [1]*fsmpb.RequestItem
	}{content: job.ContentOf(j)}
	of.item = fsmpb.RequestItem{JobId: key[len(removedPrefix):], Token: j.Execution().Token, Status: uint32(j.Status)}
	of.items[0] = &of.item
	of.record = RequestRecord{
		Key:         key,
		Fingerprint: of.content[:],
		// It is as old as a request that is forgotten repeatMs after the job's end.
		AtMs:  min(at.NowMs, later(j.Execution().FinishedAt, repeatMs-max(at.Settings.RequestMs, 0))),
		Term:  at.Term,
		Index: at.Index,
		Items: of.items[:],
		Count: uint64(j.AttemptEnd),
		Type:  j.Type, Group: j.Options().Group,
	}
	if old := x.byKey[key]; old != nil {
		x.drop(old)
	}
	x.add(&of.record)
	x.bound(at.Settings.RequestCount)
}

// removed returns the record of a removed job, or nil.
func (x *requests) removed(id string) *RequestRecord {
	x.lookup = append(append(x.lookup[:0], removedPrefix...), id...)
	return x.byKey[string(x.lookup)]
}

// statusOf returns the status of a job, also of a removed one that is remembered, or 0.
func (m *Machine) statusOf(id string) Status {
	if j := m.ids.Get(id); j != nil {
		return j.Status
	}
	if r := m.requests.removed(id); r != nil {
		return Status(r.Items[0].Status)
	}
	return 0
}

// jobOfRecord returns a job with the remembered fields of a removed job: its id, token,
// status and end.
func jobOfRecord(r *RequestRecord) *Job {
	i := r.Items[0]
	return &Job{ID: i.JobId, Exec: &Execution{Token: i.Token}, Status: Status(i.Status), AttemptEnd: End(r.Count)}
}

// endedAlready returns the removed job if the lease l ended it in the same way, or nil.
func (x *requests) endedAlready(l *fsmpb.Lease, end End) *Job {
	r := x.removed(l.JobId)
	if r == nil || l.Token == 0 || end == NoEnd {
		return nil
	}
	if j := jobOfRecord(r); j.Execution().Token == l.Token && j.AttemptEnd == end {
		return j
	}
	return nil
}

// RemovedJob returns the fields that are known of a job that retention has removed: id,
// token, status and end. It returns nil for the record of a caller's request.
func RemovedJob(r *RequestRecord) *Job {
	if !strings.HasPrefix(r.Key, removedPrefix) || len(r.Items) != 1 {
		return nil
	}
	return jobOfRecord(r)
}
