package fsm

import (
	"slices"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// ChangeKind is the operation of a Change on jobs.
type ChangeKind uint32

// The kinds of change. They stand in log entries and must not change.
const (
	CancelJobs ChangeKind = iota + 1
	RetryJobs
	DeleteJobs

	numChanges = iota
)

// The limits of one change by filter.
const (
	changeMax = 1000
	visitMax  = 10_000
)

// changeable has the statuses that a filter without statuses selects.
var changeable = map[ChangeKind][]Status{
	CancelJobs: {Scheduled, Unclaimed, InProgress, Blocked},
	RetryJobs:  {Dead, Cancelled, Expired},
	DeleteJobs: {Scheduled, Unclaimed, Completed, Dead, Cancelled, Blocked, Expired},
}

// change cancels, retries or deletes jobs.
func (e *entry) change(op *fsmpb.Change) Result {
	kind := ChangeKind(op.Kind)
	if op.Filter != nil {
		return e.changeMatching(kind, op)
	}
	res := Result{Jobs: make([]*Job, len(op.Ids)), Codes: make([]Code, len(op.Ids))}
	for i, id := range op.Ids {
		j := e.ids.Get(id)
		if len(op.Seqs) > 0 && j != nil && j.Seq != op.Seqs[i] {
			j = nil
		}
		res.Jobs[i], res.Codes[i] = e.changeOne(kind, op.Fresh, j)
		if res.Codes[i] == OK {
			res.Count++
		}
	}
	return res
}

func (e *entry) changeMatching(kind ChangeKind, op *fsmpb.Change) Result {
	limit := op.Limit
	if limit == 0 || limit > changeMax {
		limit = changeMax
	}
	f := newFilter(op.Filter, kind)
	var res Result
	last := Place{Status: job.Narrow[Status](op.Filter.AfterStatus), Seq: op.Filter.AfterSeq}
	for visits := 0; ; visits++ {
		j := e.visit(f, last)
		if j == nil {
			return res
		}
		if visits == visitMax || res.Count == uint64(limit) {
			res.Next = last
			return res
		}
		last = Place{j.Status, j.Seq}
		if !f.matches(j) {
			continue
		}
		if _, code := e.changeOne(kind, op.Fresh, j); code == OK {
			res.Count++
		}
	}
}

func (e *entry) changeOne(kind ChangeKind, fresh bool, j *Job) (*Job, Code) {
	if j == nil {
		return nil, NotFound
	}
	switch kind {
	case CancelJobs:
		return e.cancel(j)
	case RetryJobs:
		return e.retry(j, fresh)
	}
	return e.deleteJob(j)
}

func (e *entry) cancel(old *Job) (*Job, Code) {
	switch old.Status {
	case Cancelled:
		return old, Duplicate
	case Completed, Dead, Expired:
		return old, WrongStatus
	case InProgress:
		return e.requestCancel(old)
	}
	j := old.Change()
	e.endWaiting(old, j, Cancelled)
	return j, OK
}

// requestCancel records the request to cancel a running job. Its worker learns it from
// the next heartbeat.
func (e *entry) requestCancel(old *Job) (*Job, Code) {
	if old.Details().CancelAt != 0 {
		return old, Duplicate
	}
	j := *old
	j.ChangeDetails(func(d *Details) { d.CancelAt = e.meta.NowMs })
	e.put(old, &j)
	e.events = append(e.events, Event{Kind: JobCancelled, Job: &j, From: j.Status})
	return &j, OK
}

// endWaiting makes j, a changed copy of old that is not running, cancelled or expired.
func (e *entry) endWaiting(old, j *Job, s Status) {
	j.ChangeDetails(func(d *Details) { d.Waits, d.InLine = nil, false })
	e.end(old, j, s)
}

func (e *entry) expire(old *Job) {
	e.firings--
	e.endWaiting(old, old.Change(), Expired)
}

func (e *entry) retry(old *Job, fresh bool) (*Job, Code) {
	switch old.Status {
	case Unclaimed:
		return old, Duplicate
	case Scheduled:
		j := *old
		j.Status, j.RunAt = Unclaimed, e.meta.NowMs
		if fresh {
			j.ChangeDetails((*Details).Drop)
		}
		e.put(old, &j)
		return &j, OK
	case Dead, Cancelled, Expired:
		return e.revive(old, fresh)
	}
	return old, WrongStatus
}

// revive makes an ended job ready for a full set of attempts.
func (e *entry) revive(old *Job, fresh bool) (*Job, Code) {
	if e.uniques.Taken(e.ids, old) {
		return old, UniqueTaken
	}
	j := renewed(old, fresh)
	if e.sequences.taken(j.Options().Sequence) {
		j.ChangeDetails(func(d *Details) { d.InLine = true })
	}
	j.Status = j.FreeStatus(e.meta.NowMs)
	e.put(old, j)
	return j, OK
}

// renewed returns a copy of a job as new, without its status; if it is fresh, without its steps and signals.
func renewed(old *Job, fresh bool) *Job {
	j := old.Change()
	j.AttemptEnd, j.Attempts = NoEnd, 0
	j.Exec.Worker, j.Exec.Heartbeat, j.Exec.FinishedAt, j.RunAt, j.Exec.Result = "", 0, 0, 0, nil
	j.ChangeDetails(func(d *Details) {
		d.CancelAt, d.Progress, d.ProgressAt, d.Waits, d.InLine, d.GivenBack = 0, Progress{}, 0, nil, false, 0
		d.Revived = j.Exec.Token == 0 && j.Options().StartBefore != 0
		d.Log, d.FailedBefore = "", false
		if fresh {
			d.Drop()
		}
	})
	return j
}

func (e *entry) deleteJob(j *Job) (*Job, Code) {
	if j.Status == InProgress || j.Status == Completed && e.waits.Of(j.ID).All > 0 {
		return j, WrongStatus
	}
	e.uniques.Release(j)
	e.remove(j)
	return j, OK
}

// filter is an fsmpb.Filter in the form in which it visits jobs.
type filter struct {
	*fsmpb.Filter
	statuses []Status // in order
	label    *label
}

func newFilter(p *fsmpb.Filter, kind ChangeKind) *filter {
	f := &filter{Filter: p}
	for _, s := range p.Statuses {
		f.statuses = append(f.statuses, job.Narrow[Status](s))
	}
	if len(f.statuses) == 0 {
		f.statuses = slices.Clone(changeable[kind])
	}
	slices.Sort(f.statuses)
	f.statuses = slices.Compact(f.statuses)
	if l, ok := (Index{Tag: p.Tag, Batch: p.Batch}).label(); ok {
		f.label = &l
	}
	return f
}

// visit returns the next job after a place, by status, then Seq, that can match the
// filter.
func (m *Machine) visit(f *filter, after Place) *Job {
	for _, s := range f.statuses {
		if s < after.Status {
			continue
		}
		seq := uint64(0)
		if s == after.Status {
			if seq = after.Seq; seq+1 == 0 {
				continue
			}
		}
		if j := m.nextIn(f, s, seq+1); j != nil {
			return j
		}
	}
	return nil
}

// nextIn returns the first job in status s whose Seq is seq or greater.
func (m *Machine) nextIn(f *filter, s Status, seq uint64) (found *Job) {
	from := &Job{Status: s, Seq: seq}
	take := func(j *Job, same bool) bool {
		if same && j.Status == s {
			found = j
		}
		return false
	}
	switch {
	case f.label != nil:
		m.tagged.Ascend(tagged{*f.label, from}, func(t tagged) bool { return take(t.job, t.label == *f.label) })
	case f.Type != nil:
		from.Type = *f.Type
		m.types.typed.Ascend(from, func(j *Job) bool { return take(j, j.Type == *f.Type) })
	default:
		m.jobs.Ascend(from, func(j *Job) bool { return take(j, true) })
	}
	return found
}

func (f *filter) matches(j *Job) bool {
	o := j.Options()
	switch {
	case f.Type != nil && j.Type != *f.Type,
		f.Tag != "" && !slices.Contains(o.Tags, f.Tag),
		f.Group != nil && o.Group != *f.Group,
		f.Batch != "" && o.Batch != f.Batch,
		f.Worker != nil && j.Execution().Worker != *f.Worker,
		f.CreatedFromMs != 0 && j.CreatedAt < f.CreatedFromMs,
		f.CreatedBeforeMs != 0 && j.CreatedAt >= f.CreatedBeforeMs:
		return false
	}
	return true
}
