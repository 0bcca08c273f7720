package fsm

import (
	"cmp"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/idtable"
)

// holder is the place of a job among the jobs with the same unique key.
type holder struct {
	jobType string
	key     string
	seq     uint64
	id      string
}

func byKeySeq(a, b holder) bool {
	return cmp.Or(strings.Compare(a.jobType, b.jobType), strings.Compare(a.key, b.key), cmp.Compare(a.seq, b.seq)) < 0
}

// uniques has the unique keys that are held: by jobs in some statuses, and for a period.
type uniques struct {
	table[Hold]                     // by type, then key; due: all
	holders     *btree.Tree[holder] // jobs that hold their key by their status
}

func newUniques() uniques {
	return uniques{
		table: newTable(
			func(a, b *Hold) bool {
				return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Key, b.Key)) < 0
			},
			func(h *Hold) (int64, bool) { return h.UntilMs, true },
		),
		holders: btree.New(byKeySeq),
	}
}

// holdsKey reports whether j holds its unique key by its status. For a period a Hold
// reserves the key instead.
func holdsKey(j *Job) bool {
	if j.Opt == nil || j.Opt.Unique.Key == "" {
		return false
	}
	switch j.Opt.Unique.Scope {
	case UniqueWaiting:
		return j.Status == Blocked || j.Status == Scheduled || j.Status == Unclaimed
	case UniqueActive:
		return !j.Status.Ended()
	}
	return false
}

func holderOf(j *Job) holder {
	return holder{jobType: j.Type, key: j.Opt.Unique.Key, seq: j.Seq, id: j.ID}
}

// add notes a job that holds its key.
func (x *uniques) add(j *Job) {
	if holdsKey(j) {
		x.holders.Set(holderOf(j))
	}
}

func (x *uniques) remove(j *Job) {
	if holdsKey(j) {
		x.holders.Delete(holderOf(j))
	}
}

// holder returns the job that holds the key of a type, or nil. If the job was
// removed and only its Hold is left, the result has only id, type and Seq.
func (x *uniques) holder(jobs *idtable.Table[Job], jobType, key string) (found *Job) {
	x.holders.Ascend(holder{jobType: jobType, key: key}, func(h holder) bool {
		if h.jobType == jobType && h.key == key {
			found = jobs.Get(h.id)
		}
		return false
	})
	if found != nil {
		return found
	}
	h := x.Find(&Hold{Type: jobType, Key: key})
	if h == nil {
		return nil
	}
	if j := jobs.Get(h.JobId); j != nil && j.Seq == h.Seq {
		return j
	}
	return &Job{ID: h.JobId, Type: h.Type, Seq: h.Seq}
}

// reserve begins the reservation of a new job's key, if it has one for a period.
func (x *uniques) reserve(j *Job) {
	if u := j.Options().Unique; u.Scope == UniquePeriod && u.Key != "" {
		x.Set(nil, &Hold{
			Type: j.Type, Key: u.Key, Seq: j.Seq, JobId: strings.Clone(j.ID), // it outlives the job
			UntilMs: later(j.CreatedAt, u.PeriodMs),
		})
	}
}

// release ends the reservation of a job that is deleted.
func (x *uniques) release(j *Job) {
	if j.Options().Unique.Scope != UniquePeriod {
		return
	}
	if h := x.Find(&Hold{Type: j.Type, Key: j.Opt.Unique.Key}); h != nil && h.Seq == j.Seq {
		x.Delete(h)
	}
}

// expire ends the reservations whose period has passed.
func (x *uniques) expire(now int64) {
	x.Expire(func(h *Hold) bool { return h.UntilMs <= now }, x.Delete)
}
