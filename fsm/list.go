package fsm

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"

	"osqueue/fsm/btree"
	"osqueue/fsm/waits"
)

// Index selects the jobs that a listing reads: all, or the jobs of a type, a tag or a batch.
// At most one field is set.
type Index struct {
	Type       *string // "" are the jobs without type
	Tag, Batch string
}

// label returns the tag or batch of the index, and whether it has one.
func (x Index) label() (l label, ok bool) {
	if x.Tag != "" {
		return tagLabel(x.Tag), true
	}
	return batchLabel(x.Batch), x.Batch != ""
}

// Jobs is List for all jobs in one status.
func (v *View) Jobs(s Status, after uint64, fn func(*Job) bool) {
	v.List(Index{}, []Status{s}, after, fn)
}

// List calls fn for the jobs of an index in one of the statuses whose Seq is greater than
// after, in FIFO order, until fn returns false. A repeated status counts once. It visits no
// other jobs.
func (v *View) List(of Index, statuses []Status, after uint64, fn func(*Job) bool) {
	if after < math.MaxUint64 { // no Seq is greater, and after+1 would wrap to 0
		v.list(of, statuses, after+1, false, fn)
	}
}

// Newest calls fn for the jobs of an index in one of the statuses whose Seq is less than
// before, newest first, until fn returns false. If before is 0, it begins with the newest job.
func (v *View) Newest(of Index, statuses []Status, before uint64, fn func(*Job) bool) {
	v.list(of, statuses, cmp.Or(before, math.MaxUint64), true, fn)
}

// list merges one feed for each status. In FIFO order from is the first Seq that counts; newest
// first, all that are less count.
func (v *View) list(of Index, statuses []Status, from uint64, newest bool, fn func(*Job) bool) {
	feeds := make([]feed, 0, len(statuses))
	for i, s := range statuses {
		if !slices.Contains(statuses[:i], s) {
			feeds = append(feeds, v.feed(of, &Job{Status: s, Seq: from}, newest))
		}
	}
	for {
		var first *feed
		for i := range feeds {
			l := &feeds[i]
			if l.job != nil && (first == nil || newest == (l.job.Seq > first.job.Seq)) {
				first = l
			}
		}
		if first == nil || !fn(first.job) {
			return
		}
		first.job = first.next()
	}
}

// feed has the jobs of an index in one status.
type feed struct {
	job  *Job // the first; nil at the end
	next func() *Job
}

// feed opens the feed of a status at a job, which is changed.
func (v *View) feed(of Index, from *Job, newest bool) feed {
	if l, ok := of.label(); ok {
		return openFeed(v.tagged, tagged{l, from}, newest, func(t tagged) *Job {
			if t.label != l || t.job.Status != from.Status {
				return nil
			}
			return t.job
		})
	}
	tree := v.jobs
	if of.Type != nil {
		tree, from.Type = v.typed, *of.Type
	}
	return openFeed(tree, from, newest, func(j *Job) *Job {
		if j.Status != from.Status || of.Type != nil && j.Type != from.Type {
			return nil
		}
		return j
	})
}

// openFeed returns the feed that begins with the first item that is not less than from or, newest
// first, with the last one that is less. job returns nil for an item behind the feed.
func openFeed[T any](tree *btree.Tree[T], from T, newest bool, job func(T) *Job) feed {
	it := tree.Iter()
	read := func(ok bool) *Job {
		if !ok {
			return nil
		}
		return job(it.Item())
	}
	found := it.Seek(from)
	switch {
	case !newest:
		return feed{read(found), func() *Job { return read(it.Next()) }}
	case found:
		found = it.Prev()
	default:
		found = it.Last()
	}
	return feed{read(found), func() *Job { return read(it.Prev()) }}
}

// HeldBy iterates over the jobs leased to a worker whose Seq is greater than after, in FIFO order.
func (v *View) HeldBy(worker string, after uint64) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		if after == math.MaxUint64 {
			return
		}
		v.running.Ascend(&Job{Exec: &Execution{Worker: worker}, Seq: after + 1}, func(j *Job) bool {
			return j.Execution().Worker == worker && yield(j)
		})
	}
}

// Held returns the number of jobs leased to a worker, in O(log² n).
func (v *View) Held(worker string) int {
	before := func(worker string) int {
		return countBefore(v.running, func(j *Job) bool { return j.Execution().Worker < worker })
	}
	return before(worker+"\x00") - before(worker)
}

// CountOfType returns the number of jobs of a type in a status, in O(log² n).
func (v *View) CountOfType(name string, s Status) int {
	before := func(s Status) int {
		return countBefore(v.typed, func(j *Job) bool { return j.Type < name || j.Type == name && j.Status < s })
	}
	return before(s+1) - before(s)
}

// countBefore returns the number of jobs of a tree that are in front of a place.
func countBefore(tree *btree.Tree[*Job], before func(*Job) bool) int {
	return sort.Search(tree.Len(), func(i int) bool {
		j, ok := tree.GetAt(i)
		return !ok || !before(j)
	})
}

// Dependents iterates over the ids of the jobs that were enqueued to run after the job with that
// id, oldest first.
func (v *View) Dependents(id string) iter.Seq[string] {
	return func(yield func(string) bool) {
		v.dependents.Ascend(waits.Dependent{On: id}, func(d waits.Dependent) bool { return d.On == id && yield(d.ID) })
	}
}
