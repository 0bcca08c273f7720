package fsm_test

import (
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Bounds of a change by filter.
const (
	changesMax = 1000
	visitsMax  = 10_000
)

func (m *model) changeJobs(op *fsmpb.Change) fsm.Result {
	if op.Filter != nil {
		return m.changeByFilter(op)
	}
	var res fsm.Result
	for i, id := range op.Ids {
		j := m.job(id)
		if j != nil && op.Seqs != nil && j.Seq != op.Seqs[i] {
			j = nil
		}
		j, code := m.changeOne(op, j)
		res.Jobs, res.Codes = append(res.Jobs, j), append(res.Codes, code)
		if code == fsm.OK {
			res.Count++
		}
	}
	return res
}

func (m *model) changeOne(op *fsmpb.Change, j *fsm.Job) (*fsm.Job, fsm.Code) {
	if j == nil {
		return nil, fsm.NotFound
	}
	switch fsm.ChangeKind(op.Kind) {
	case fsm.CancelJobs:
		return m.cancel(j)
	case fsm.RetryJobs:
		return m.retry(j, op.Fresh)
	}
	return m.deleteJob(j)
}

func (m *model) cancel(j *fsm.Job) (*fsm.Job, fsm.Code) {
	switch j.Status {
	case fsm.Blocked, fsm.Scheduled, fsm.Unclaimed:
		return m.change(j, func(j *fsm.Job) { m.finish(j, fsm.Cancelled, j.AttemptEnd) }), fsm.OK
	case fsm.InProgress:
		if j.Details().CancelAt != 0 {
			return j, fsm.Duplicate
		}
		j = m.change(j, func(j *fsm.Job) { details(j, func(d *fsm.Details) { d.CancelAt = m.meta.NowMs }) })
		m.events = append(m.events, event{kind: fsm.JobCancelled, id: j.ID, from: j.Status, to: j.Status})
		return j, fsm.OK
	case fsm.Cancelled:
		return j, fsm.Duplicate
	}
	return j, fsm.WrongStatus
}

func (m *model) retry(j *fsm.Job, fresh bool) (*fsm.Job, fsm.Code) {
	switch j.Status {
	case fsm.Dead, fsm.Cancelled, fsm.Expired:
		if m.holder(j, j) != nil {
			return j, fsm.UniqueTaken
		}
		return m.change(j, func(j *fsm.Job) {
			m.asNew(j, fresh)
			details(j, func(d *fsm.Details) { d.InLine = m.busy(j.Options().Sequence) })
			j.Status = m.waitingOrReady(j)
		}), fsm.OK
	case fsm.Scheduled:
		return m.change(j, func(j *fsm.Job) {
			j.Status, j.RunAt = fsm.Unclaimed, m.meta.NowMs
			if fresh {
				details(j, func(d *fsm.Details) { d.Steps, d.Signals = nil, nil })
			}
		}), fsm.OK
	case fsm.Unclaimed:
		return j, fsm.Duplicate
	}
	return j, fsm.WrongStatus
}

// editJob changes fields of a waiting job, or retries an ended one with them.
func (m *model) editJob(op *fsmpb.EditJob) fsm.Result {
	old := m.job(op.Id)
	if old == nil || op.Seq != 0 && op.Seq != old.Seq {
		return fsm.Result{Code: fsm.NotFound}
	}
	j, again := m.withFields(old, op), op.Retry && (old.Status == fsm.Dead || old.Status == fsm.Cancelled || old.Status == fsm.Expired)
	waits := old.Status == fsm.Blocked || old.Status == fsm.Scheduled || old.Status == fsm.Unclaimed
	answer := func(code fsm.Code, j *fsm.Job) fsm.Result {
		return fsm.Result{Code: code, Jobs: []*fsm.Job{j}, Count: j.Details().Revision}
	}
	refuse := func(code fsm.Code) fsm.Result { return answer(code, old) }
	switch {
	case !waits && !again:
		return refuse(fsm.WrongStatus)
	case j == nil && !again:
		return refuse(fsm.Duplicate)
	case op.Revision != nil && *op.Revision != old.Details().Revision:
		return refuse(fsm.Revised)
	}
	if j != nil {
		if code := m.overEdited(old, j, op.Quota); code != fsm.OK {
			return refuse(code)
		}
	}
	if again {
		retried, code := m.retry(old, false)
		if code != fsm.OK {
			return refuse(code)
		}
		old, j = retried, m.withFields(retried, op)
	}
	if j == nil {
		return answer(fsm.OK, old)
	}
	return answer(fsm.OK, m.storeFields(old, j))
}

// storeFields puts a job with other fields in the place of a waiting one.
func (m *model) storeFields(old, fields *fsm.Job) *fsm.Job {
	content := fsm.ContentOf(old)
	j := m.change(old, func(to *fsm.Job) {
		*to = *withExecution(fields)
		if to.Status != fsm.Blocked {
			to.Status = m.ready(to)
		}
		details(to, func(d *fsm.Details) { d.Revision, d.Content = d.Revision+1, content })
	})
	m.events = append(m.events, event{kind: fsm.JobEdited, id: j.ID, from: j.Status, to: j.Status})
	return j
}

// withFields is a copy of a job with the fields of an edit; nil if they are as before.
func (m *model) withFields(old *fsm.Job, op *fsmpb.EditJob) *fsm.Job {
	j := *old
	changed := false
	if p := op.Payload; p != nil && (old.Payload() == nil || string(p) != string(old.Payload())) {
		j.SetPayload(p)
		changed = true
	}
	if p := op.Priority; p != nil && *p != old.Priority {
		j.Priority, changed = *p, true
	}
	if at := op.RunAtMs; at != nil && *at != old.RunAt {
		j.RunAt, changed = *at, true
	}
	if n := op.MaxAttempts; n != nil && *n != old.MaxAttempts {
		j.MaxAttempts, changed = *n, true
	}
	if op.Tags != nil && !slices.Equal(unrepeated(op.Tags.Tags), old.Options().Tags) {
		o := *old.Options()
		o.Tags = unrepeated(op.Tags.Tags)
		j.Opt, changed = &o, true
	}
	if op.Limits != nil && !slices.Equal(op.Limits.Limits, old.Options().Limits) {
		o := *j.Options()
		o.Limits = op.Limits.Limits
		j.Opt, changed = &o, true
	}
	if !changed {
		return nil
	}
	return &j
}

// overEdited checks the quotas of bytes for what an edit adds.
func (m *model) overEdited(old, j *fsm.Job, caller *fsmpb.Quota) fsm.Code {
	more := sentBytes(j) - sentBytes(old)
	if more <= 0 {
		return fsm.OK
	}
	over := func(limit, n int64) bool { return limit > 0 && n > limit }
	q, s, payload := m.settingsOf(j.Type), m.meta.Settings, int64(len(j.Payload()))
	_, ofType := m.load(func(o *fsm.Job) bool { return o.Type == j.Type })
	_, all := m.load(func(*fsm.Job) bool { return true })
	switch {
	case payload > int64(len(old.Payload())) && (over(q.MaxPayload, payload) || over(s.MaxPayload, payload)):
		return fsm.PayloadTooLarge
	case over(q.MaxBytes, ofType+more) || over(s.MaxBytes, all+m.recordBytes()+more):
		return fsm.TooManyBytes
	case caller.GetAccount() != j.Options().Account:
		return fsm.OK
	}
	_, own := m.usedByRecords(caller.GetAccount())
	for _, o := range m.jobs {
		if o.Options().Account == caller.GetAccount() && !hasEnded(o.Status) {
			own += sentBytes(o)
		}
	}
	if over(caller.GetMaxBytes(), own+more) {
		return fsm.TooManyTokenBytes
	}
	return fsm.OK
}

func (m *model) deleteJob(j *fsm.Job) (*fsm.Job, fsm.Code) {
	if j.Status == fsm.InProgress || m.owed(j) {
		return j, fsm.WrongStatus
	}
	m.remove(j)
	m.holds = slices.DeleteFunc(slices.Clone(m.holds), func(h *fsm.Hold) bool { return h.Seq == j.Seq })
	return j, fsm.OK
}

// changeByFilter visits jobs one after the other, as they are by then.
func (m *model) changeByFilter(op *fsmpb.Change) (res fsm.Result) {
	kind, f, limit := fsm.ChangeKind(op.Kind), op.Filter, op.Limit
	if limit == 0 || limit > changesMax {
		limit = changesMax
	}
	at := fsm.Place{Status: fsm.Status(f.AfterStatus), Seq: f.AfterSeq}
	for visits := 0; ; visits++ {
		j := m.nextToVisit(kind, f, at)
		if j == nil {
			return res
		}
		if visits == visitsMax || res.Count == uint64(limit) {
			res.Next = at
			return res
		}
		at = fsm.Place{Status: j.Status, Seq: j.Seq}
		if matches(f, j) {
			if _, code := m.changeOne(op, j); code == fsm.OK {
				res.Count++
			}
		}
	}
}

// nextToVisit is the first job behind a place, in the order of visits.
func (m *model) nextToVisit(kind fsm.ChangeKind, f *fsmpb.Filter, at fsm.Place) (first *fsm.Job) {
	for _, j := range m.jobs {
		if !visited(kind, f, j) || !behind(j, at.Status, at.Seq) {
			continue
		}
		if first == nil || behind(first, j.Status, j.Seq) {
			first = j
		}
	}
	return first
}

func behind(j *fsm.Job, s fsm.Status, seq uint64) bool {
	return j.Status > s || j.Status == s && j.Seq > seq
}

// visited is whether a job is looked at, at all.
func visited(kind fsm.ChangeKind, f *fsmpb.Filter, j *fsm.Job) bool {
	statuses := applicable(kind)
	if len(f.Statuses) > 0 {
		statuses = nil
		for _, s := range f.Statuses {
			statuses = append(statuses, fsm.Status(s))
		}
	}
	if !slices.Contains(statuses, j.Status) {
		return false
	}
	switch {
	case f.Tag != "":
		return slices.Contains(j.Options().Tags, f.Tag)
	case f.Batch != "":
		return j.Options().Batch == f.Batch
	case f.Type != nil:
		return j.Type == *f.Type
	}
	return true
}

// applicable are the statuses in which a change has an effect.
func applicable(kind fsm.ChangeKind) []fsm.Status {
	switch kind {
	case fsm.CancelJobs:
		return []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Blocked}
	case fsm.RetryJobs:
		return []fsm.Status{fsm.Dead, fsm.Cancelled, fsm.Expired}
	}
	return []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired}
}

func matches(f *fsmpb.Filter, j *fsm.Job) bool {
	o := j.Options()
	return (f.Type == nil || j.Type == *f.Type) &&
		(f.Tag == "" || slices.Contains(o.Tags, f.Tag)) &&
		(f.Group == nil || o.Group == *f.Group) &&
		(f.Batch == "" || o.Batch == f.Batch) &&
		(f.Worker == nil || j.Execution().Worker == *f.Worker) &&
		(f.CreatedFromMs == 0 || j.CreatedAt >= f.CreatedFromMs) &&
		(f.CreatedBeforeMs == 0 || j.CreatedAt < f.CreatedBeforeMs)
}
