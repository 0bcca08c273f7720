package fsm

import (
	"math"
	"slices"

	"osqueue/fsm/btree"
)

// Index selects the jobs that a listing reads: all, or the jobs of a type, a tag or a batch.
// At most one field is set.
type Index struct {
	Type       *string // "" are the jobs without type
	Tag, Batch string
}

// Merged is Jobs over several statuses, in one FIFO order. A repeated status counts once.
func (v *View) Merged(statuses []Status, after uint64, fn func(*Job) bool) {
	v.list(Index{}, statuses, behind(after), fn)
}

// MergedOfType is JobsOfType over several statuses, in one FIFO order. A repeated status
// counts once.
func (v *View) MergedOfType(name string, statuses []Status, after uint64, fn func(*Job) bool) {
	v.mergeType(name, statuses, behind(after), fn)
}

// MergedTagged is JobsTagged over several statuses, like MergedOfType.
func (v *View) MergedTagged(tag string, statuses []Status, after uint64, fn func(*Job) bool) {
	v.mergeLabel(tagLabel(tag), statuses, behind(after), fn)
}

// MergedOfBatch is JobsOfBatch over several statuses, like MergedOfType.
func (v *View) MergedOfBatch(id string, statuses []Status, after uint64, fn func(*Job) bool) {
	v.mergeLabel(batchLabel(id), statuses, behind(after), fn)
}

// Newest calls fn for the jobs of an index in one of the statuses whose Seq is less than
// before, newest first, until fn returns false. If before is 0, it begins with the newest job.
func (v *View) Newest(of Index, statuses []Status, before uint64, fn func(*Job) bool) {
	if before == 0 {
		before = math.MaxUint64
	}
	v.list(of, statuses, start{seq: before, newest: true, some: true}, fn)
}

// start is where a listing begins, and its direction.
type start struct {
	seq    uint64 // FIFO order: the first that counts; newest first: all that are less count
	newest bool
	some   bool // there may be jobs
}

// behind is the start of a listing in FIFO order of the jobs after a Seq.
func behind(after uint64) start { return start{seq: after + 1, some: after < math.MaxUint64} }

func (v *View) list(of Index, statuses []Status, from start, fn func(*Job) bool) {
	switch {
	case of.Type != nil:
		v.mergeType(*of.Type, statuses, from, fn)
	case of.Tag != "":
		v.mergeLabel(tagLabel(of.Tag), statuses, from, fn)
	case of.Batch != "":
		v.mergeLabel(batchLabel(of.Batch), statuses, from, fn)
	default:
		merge(v.jobs, from, lanesOf(statuses, from, func(s Status) lane[*Job] {
			return lane[*Job]{
				from:  &Job{Status: s, Seq: from.seq},
				holds: func(j *Job) bool { return j.Status == s },
			}
		}), func(j *Job) *Job { return j }, fn)
	}
}

func (v *View) mergeType(name string, statuses []Status, from start, fn func(*Job) bool) {
	merge(v.typed, from, lanesOf(statuses, from, func(s Status) lane[*Job] {
		return lane[*Job]{
			from:  &Job{Type: name, Status: s, Seq: from.seq},
			holds: func(j *Job) bool { return j.Type == name && j.Status == s },
		}
	}), func(j *Job) *Job { return j }, fn)
}

func (v *View) mergeLabel(l label, statuses []Status, from start, fn func(*Job) bool) {
	merge(v.tagged, from, lanesOf(statuses, from, func(s Status) lane[tagged] {
		return lane[tagged]{
			from:  tagged{label: l, job: &Job{Status: s, Seq: from.seq}},
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

// lanesOf returns one lane for each status.
func lanesOf[T any](statuses []Status, from start, open func(s Status) lane[T]) []lane[T] {
	var lanes []lane[T]
	for i, s := range statuses {
		if from.some && !slices.Contains(statuses[:i], s) {
			lanes = append(lanes, open(s))
		}
	}
	return lanes
}

// head is the next job of a lane.
type head[T any] struct {
	it   btree.Iter[T]
	lane lane[T]
	job  *Job // nil at the end
}

// merge calls fn for the jobs of all lanes, in the direction of from, until fn returns
// false.
func merge[T any](tree *btree.Tree[T], from start, lanes []lane[T], job func(T) *Job, fn func(*Job) bool) {
	heads := make([]head[T], 0, len(lanes))
	read := func(h *head[T], ok bool) {
		h.job = nil
		if ok && h.lane.holds(h.it.Item()) {
			h.job = job(h.it.Item())
		}
	}
	for _, l := range lanes {
		h := head[T]{it: tree.Iter(), lane: l}
		read(&h, seek(&h.it, l.from, from.newest))
		heads = append(heads, h)
	}
	for {
		first := firstOf(heads, from.newest)
		switch {
		case first == nil || !fn(first.job):
			return
		case from.newest:
			read(first, first.it.Prev())
		default:
			read(first, first.it.Next())
		}
	}
}

// seek moves an iterator to the first item that is not less than from or, newest first, to
// the last one that is less.
func seek[T any](it *btree.Iter[T], from T, newest bool) bool {
	switch found := it.Seek(from); {
	case !newest:
		return found
	case found:
		return it.Prev()
	}
	return it.Last()
}

// firstOf returns the head whose job is next, or nil at the end of all lanes.
func firstOf[T any](heads []head[T], newest bool) (first *head[T]) {
	for i := range heads {
		h := &heads[i]
		if h.job != nil && (first == nil || newest == (h.job.Seq > first.job.Seq)) {
			first = h
		}
	}
	return first
}
