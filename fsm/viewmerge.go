package fsm

import (
	"math"
	"slices"

	"github.com/tidwall/btree"
)

// Merged is Jobs over several statuses, in one FIFO order. A repeated status counts once.
func (v *View) Merged(statuses []Status, after uint64, fn func(*Job) bool) {
	merge(v.jobs, lanesOf(statuses, after, func(s Status, seq uint64) lane[*Job] {
		return lane[*Job]{
			from:  &Job{Status: s, Seq: seq},
			holds: func(j *Job) bool { return j.Status == s },
		}
	}), func(j *Job) *Job { return j }, fn)
}

// MergedOfType is JobsOfType over several statuses, in one FIFO order. A repeated status
// counts once.
func (v *View) MergedOfType(name string, statuses []Status, after uint64, fn func(*Job) bool) {
	merge(v.typed, lanesOf(statuses, after, func(s Status, seq uint64) lane[*Job] {
		return lane[*Job]{
			from:  &Job{Type: name, Status: s, Seq: seq},
			holds: func(j *Job) bool { return j.Type == name && j.Status == s },
		}
	}), func(j *Job) *Job { return j }, fn)
}

// MergedTagged is JobsTagged over several statuses, like MergedOfType.
func (v *View) MergedTagged(tag string, statuses []Status, after uint64, fn func(*Job) bool) {
	v.mergeLabel(tagLabel(tag), statuses, after, fn)
}

// MergedOfBatch is JobsOfBatch over several statuses, like MergedOfType.
func (v *View) MergedOfBatch(id string, statuses []Status, after uint64, fn func(*Job) bool) {
	v.mergeLabel(batchLabel(id), statuses, after, fn)
}

func (v *View) mergeLabel(l label, statuses []Status, after uint64, fn func(*Job) bool) {
	merge(v.tagged, lanesOf(statuses, after, func(s Status, seq uint64) lane[tagged] {
		return lane[tagged]{
			from:  tagged{label: l, job: &Job{Status: s, Seq: seq}},
			holds: func(t tagged) bool { return t.label == l && t.job.Status == s },
		}
	}), func(t tagged) *Job { return t.job }, fn)
}

// WorkersFrom calls fn for the registered workers whose name is name or later, in the
// order of names, until fn returns false.
func (v *View) WorkersFrom(name string, fn func(*Worker) bool) {
	v.workers.Ascend(&Worker{Name: name}, fn)
}

// lane is a part of an index that is in FIFO order.
type lane[T any] struct {
	from  T
	holds func(T) bool
}

// lanesOf returns one lane for each status, with the jobs whose Seq is greater than
// after.
func lanesOf[T any](statuses []Status, after uint64, open func(s Status, seq uint64) lane[T]) []lane[T] {
	var lanes []lane[T]
	for i, s := range statuses {
		if after < math.MaxUint64 && !slices.Contains(statuses[:i], s) {
			lanes = append(lanes, open(s, after+1))
		}
	}
	return lanes
}

// merge calls fn for the jobs of all lanes in FIFO order until fn returns false.
func merge[T any](tree *btree.BTreeG[T], lanes []lane[T], job func(T) *Job, fn func(*Job) bool) {
	type head struct {
		it   btree.IterG[T]
		lane lane[T]
		job  *Job // nil at the end
	}
	heads := make([]head, 0, len(lanes))
	read := func(h *head, ok bool) {
		h.job = nil
		if ok && h.lane.holds(h.it.Item()) {
			h.job = job(h.it.Item())
		}
	}
	for _, l := range lanes {
		h := head{it: tree.Iter(), lane: l}
		read(&h, h.it.Seek(l.from))
		heads = append(heads, h)
	}
	defer func() {
		for i := range heads {
			heads[i].it.Release()
		}
	}()
	for {
		var first *head
		for i := range heads {
			if h := &heads[i]; h.job != nil && (first == nil || h.job.Seq < first.job.Seq) {
				first = h
			}
		}
		if first == nil || !fn(first.job) {
			return
		}
		read(first, first.it.Next())
	}
}
