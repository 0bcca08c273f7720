// Package uniques has the unique keys that are held. It decides nothing; package fsm does.
package uniques

import (
	"cmp"
	"fmt"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/idtable"
	"osqueue/fsm/job"
)

// Holder is the place of a job among the jobs with the same unique key.
type Holder struct {
	Type string
	Key  string
	seq  uint64
	id   string
}

func byKeySeq(a, b Holder) bool {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Key, b.Key), cmp.Compare(a.seq, b.seq)) < 0
}

// Table has the unique keys that are held: by jobs in some statuses, and for a period. It is not safe for concurrent use.
type Table struct {
	btree.Table[fsmpb.Hold]                     // by type, then key; due: all
	Holders                 *btree.Tree[Holder] // jobs that hold their key by their status
}

// New returns an empty table.
func New() Table {
	return Table{
		Table: btree.NewTable(
			func(a, b *fsmpb.Hold) bool {
				return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Key, b.Key)) < 0
			},
			func(h *fsmpb.Hold) (int64, bool) { return h.UntilMs, true },
		),
		Holders: btree.New(byKeySeq),
	}
}

// holdsKey reports whether j holds its unique key by its status. For a period a Hold
// reserves the key instead.
func holdsKey(j *job.Job) bool {
	if j.Opt == nil || j.Opt.Unique.Key == "" {
		return false
	}
	switch j.Opt.Unique.Scope {
	case job.UniqueWaiting:
		return j.Status == job.Blocked || j.Status == job.Scheduled || j.Status == job.Unclaimed
	case job.UniqueActive:
		return !j.Status.Ended()
	}
	return false
}

func holderOf(j *job.Job) Holder {
	return Holder{Type: j.Type, Key: j.Opt.Unique.Key, seq: j.Seq, id: j.ID}
}

// Add notes a job that holds its key.
func (x *Table) Add(j *job.Job) {
	if holdsKey(j) {
		x.Holders.Set(holderOf(j))
	}
}

// Remove is the opposite of Add.
func (x *Table) Remove(j *job.Job) {
	if holdsKey(j) {
		x.Holders.Delete(holderOf(j))
	}
}

// Holder returns the job that holds the key of a type, or nil. If the job was
// removed and only its Hold is left, the result has only id, type and Seq.
func (x *Table) Holder(jobs *idtable.Table[job.Job], jobType, key string) (found *job.Job) {
	x.Holders.Ascend(Holder{Type: jobType, Key: key}, func(h Holder) bool {
		if h.Type == jobType && h.Key == key {
			found = jobs.Get(h.id)
		}
		return false
	})
	if found != nil {
		return found
	}
	h := x.Find(&fsmpb.Hold{Type: jobType, Key: key})
	if h == nil {
		return nil
	}
	if j := jobs.Get(h.JobId); j != nil && j.Seq == h.Seq {
		return j
	}
	return &job.Job{ID: h.JobId, Type: h.Type, Seq: h.Seq}
}

// Taken reports whether another job holds the key of j.
func (x *Table) Taken(jobs *idtable.Table[job.Job], j *job.Job) bool {
	u := j.Options().Unique
	if u.Key == "" || u.Scope == job.UniqueNone {
		return false
	}
	h := x.Holder(jobs, j.Type, u.Key)
	return h != nil && h.Seq != j.Seq
}

// Reserve begins the reservation of a new job's key, if it has one for a period.
func (x *Table) Reserve(j *job.Job) {
	if u := j.Options().Unique; u.Scope == job.UniquePeriod && u.Key != "" {
		x.Set(nil, &fsmpb.Hold{
			Type: j.Type, Key: u.Key, Seq: j.Seq, JobId: strings.Clone(j.ID), // it outlives the job
			UntilMs: job.Later(j.CreatedAt, u.PeriodMs),
		})
	}
}

// Release ends the reservation of a job that is deleted.
func (x *Table) Release(j *job.Job) {
	if j.Options().Unique.Scope != job.UniquePeriod {
		return
	}
	if h := x.Find(&fsmpb.Hold{Type: j.Type, Key: j.Opt.Unique.Key}); h != nil && h.Seq == j.Seq {
		x.Delete(h)
	}
}

// Expire ends the reservations whose period has passed.
func (x *Table) Expire(now int64) {
	x.Table.Expire(func(h *fsmpb.Hold) bool { return h.UntilMs <= now }, x.Delete)
}

// String lists what is derived from the jobs and the reservations, for comparisons.
func (x *Table) String() string {
	var out strings.Builder
	x.Holders.Scan(func(h Holder) bool { fmt.Fprintf(&out, "holder %+v\n", h); return true })
	x.Due(func(h *fsmpb.Hold) bool { fmt.Fprintf(&out, "hold %v\n", h); return true })
	return out.String()
}
