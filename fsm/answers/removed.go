package answers

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

// RememberRemoved keeps the record of a job that retention removes.
func (x *Requests) RememberRemoved(j *job.Job, at *fsmpb.Meta) {
	if job.Later(j.Execution().FinishedAt, repeatMs) < at.NowMs {
		return
	}
	key := removedPrefix + j.ID
	of := &struct { // in one allocation
		record  fsmpb.RequestRecord
		content job.Content
		item    fsmpb.RequestItem
		items   [1]*fsmpb.RequestItem
	}{content: job.ContentOf(j)}
	of.item = fsmpb.RequestItem{JobId: key[len(removedPrefix):], Token: j.Execution().Token, Status: uint32(j.Status)}
	of.items[0] = &of.item
	of.record = fsmpb.RequestRecord{
		Key:         key,
		Fingerprint: of.content[:],
		// It is as old as a request that is forgotten repeatMs after the job's end.
		AtMs:  min(at.NowMs, job.Later(j.Execution().FinishedAt, repeatMs-max(at.Settings.RequestMs, 0))),
		Term:  at.Term,
		Index: at.Index,
		Items: of.items[:],
		Count: uint64(j.AttemptEnd),
		Type:  j.Type, Group: j.Options().Group,
	}
	if old := x.byKey[key]; old != nil {
		x.drop(old)
	}
	x.Add(&of.record)
	x.Bound(at.Settings.RequestCount)
}

// Removed returns the record of a removed job, or nil.
func (x *Requests) Removed(id string) *fsmpb.RequestRecord {
	x.lookup = append(append(x.lookup[:0], removedPrefix...), id...)
	return x.byKey[string(x.lookup)]
}

// JobOf returns a job with the remembered fields of a removed job: its id, token,
// status and end.
func JobOf(r *fsmpb.RequestRecord) *job.Job {
	i := r.Items[0]
	return &job.Job{ID: i.JobId, Exec: &job.Execution{Token: i.Token}, Status: job.Status(i.Status), AttemptEnd: job.End(r.Count)}
}

// EndedAlready returns the removed job if the lease l ended it in the same way, or nil.
func (x *Requests) EndedAlready(l *fsmpb.Lease, end job.End) *job.Job {
	r := x.Removed(l.JobId)
	if r == nil || l.Token == 0 || end == job.NoEnd {
		return nil
	}
	if j := JobOf(r); j.Execution().Token == l.Token && j.AttemptEnd == end {
		return j
	}
	return nil
}

// RemovedJob returns the fields that are known of a job that retention has removed: id,
// token, status and end. It returns nil for the record of a caller's request.
func RemovedJob(r *fsmpb.RequestRecord) *job.Job {
	if !strings.HasPrefix(r.Key, removedPrefix) || len(r.Items) != 1 {
		return nil
	}
	return JobOf(r)
}
