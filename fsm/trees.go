package fsm

import (
	"cmp"
	"strings"

	"osqueue/fsm/btree"
)

func byStatusSeq(a, b *Job) bool {
	if a.Status != b.Status {
		return a.Status < b.Status
	}
	return a.Seq < b.Seq
}

// byClaimOrder orders jobs by priority, highest first, then first in, first out.
func byClaimOrder(a, b *Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Seq < b.Seq
}

// byHolder orders running jobs, which all have an execution.
func byHolder(a, b *Job) bool {
	if c := strings.Compare(a.Exec.Worker, b.Exec.Worker); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

func byType(a, b *Job) bool {
	if c := strings.Compare(a.Type, b.Type); c != 0 {
		return c < 0
	}
	return byStatusSeq(a, b)
}

func byEnd(a, b *Job) bool {
	if x, y := a.Execution().FinishedAt, b.Execution().FinishedAt; x != y {
		return x < y
	}
	return a.Seq < b.Seq
}

func byTime(a, b timer) bool {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c < 0
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.key < b.key
}

// label is a tag or a batch, under which jobs can be listed.
type label struct {
	batch bool
	name  string
}

func tagLabel(tag string) label { return label{name: tag} }

func batchLabel(id string) label { return label{batch: true, name: id} }

// tagged is the place of a job under one of its labels.
type tagged struct {
	label label
	job   *Job
}

func byLabel(a, b tagged) bool {
	if a.label.batch != b.label.batch {
		return b.label.batch
	}
	if c := strings.Compare(a.label.name, b.label.name); c != 0 {
		return c < 0
	}
	return byStatusSeq(a.job, b.job)
}

// table has records by their keys, and in addition those that fall due by their times. The records are
// immutable: a change puts another one in their place. It is not safe for concurrent use; Copy returns a set by key
// that is.
type table[R any] struct {
	*btree.Tree[*R]                 // by key
	due             *btree.Tree[*R] // by time, then key
	at              func(*R) (ms int64, ok bool)
}

// newTable returns an empty table. less orders the keys. at returns the time of a record; ok is false if it has none.
func newTable[R any](less func(a, b *R) bool, at func(*R) (ms int64, ok bool)) table[R] {
	due := func(a, b *R) bool {
		x, _ := at(a)
		if y, _ := at(b); x != y {
			return x < y
		}
		return less(a, b)
	}
	return table[R]{btree.New(less), btree.New(due), at}
}

// Set stores r in place of old, the record with the same key; nil stands for none.
func (t *table[R]) Set(old, r *R) {
	if old != nil {
		if _, ok := t.at(old); ok {
			t.due.Delete(old)
		}
	}
	if r == nil {
		t.Tree.Delete(old)
		return
	}
	t.Tree.Set(r)
	if _, ok := t.at(r); ok {
		t.due.Set(r)
	}
}

// Delete removes a record of the table.
func (t *table[R]) Delete(r *R) { t.Set(r, nil) }

// First returns the record that falls due first; ok is false if none does.
func (t *table[R]) First() (r *R, ok bool) { return t.due.Min() }

// Due calls fn for the records that fall due, the earliest first, until fn returns false.
func (t *table[R]) Due(fn func(*R) bool) { t.due.Scan(fn) }

// Expire calls drop with the record that falls due first while over is true for it. drop removes the record.
func (t *table[R]) Expire(over func(*R) bool, drop func(*R)) { t.due.DropWhile(over, drop) }
