package fsm

import (
	"cmp"
	"slices"
	"strings"

	"osqueue/fsm/btree"
)

// sequences has the sequences of jobs that have not ended. Of each one job is first, and the others are in line. All of this is
// derived from the jobs.
type sequences struct {
	first map[string]bool
	line  *btree.Tree[inLine]
	freed []string // those that may have lost their first job in this entry
}

// inLine is the place of a job in the line of its sequence.
type inLine struct {
	sequence string
	seq      uint64
	id       string
}

func newSequences() sequences {
	return sequences{first: make(map[string]bool), line: btree.New(func(a, b inLine) bool {
		return cmp.Or(strings.Compare(a.sequence, b.sequence), cmp.Compare(a.seq, b.seq)) < 0
	})}
}

// taken reports whether a job that comes to a sequence has to get in line.
func (x *sequences) taken(name string) bool {
	return name != "" && (x.first[name] || x.next(name).id != "")
}

// next returns the place of the first job in line, or a zero one.
func (x *sequences) next(name string) (next inLine) {
	x.line.Ascend(inLine{sequence: name}, func(l inLine) bool {
		if l.sequence == name {
			next = l
		}
		return false
	})
	return next
}

// add notes a job that has not ended.
func (x *sequences) add(j *Job) {
	name := j.Options().Sequence
	switch {
	case name == "" || j.Status.Ended():
	case j.Details().InLine:
		x.line.Set(inLine{name, j.Seq, j.ID})
	default:
		x.first[name] = true
	}
}

// remove is the opposite of add.
func (x *sequences) remove(j *Job) {
	name := j.Options().Sequence
	switch {
	case name == "" || j.Status.Ended():
	case j.Details().InLine:
		x.line.Delete(inLine{name, j.Seq, j.ID})
	default:
		delete(x.first, name)
		x.freed = append(x.freed, name)
	}
}

// review finds the sequences of a restored state that have lost their first job.
func (x *sequences) review() {
	x.freed = nil
	x.line.Scan(func(l inLine) bool {
		if !x.first[l.sequence] && (len(x.freed) == 0 || x.freed[len(x.freed)-1] != l.sequence) {
			x.freed = append(x.freed, l.sequence)
		}
		return true
	})
}

// settleSequences lets the next job in line be the first one of each sequence that has lost its first.
func (e *entry) settleSequences() {
	if len(e.sequences.freed) == 0 {
		return
	}
	freed := e.sequences.freed
	slices.Sort(freed)
	for _, name := range slices.Compact(freed) {
		next := e.ids.Get(e.sequences.next(name).id)
		if next == nil || e.sequences.first[name] {
			continue
		}
		j := *next
		j.ChangeDetails(func(d *Details) { d.InLine = false })
		j.Status = j.FreeStatus(e.meta.NowMs)
		e.put(next, &j)
	}
	e.sequences.freed = freed[:0]
}
