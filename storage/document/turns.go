package document

import (
	"cmp"
	"slices"

	"osqueue/fsm"
)

// group is a group of a job type.
type group struct{ jobType, name string }

// giveTurns removes the turns of groups without available jobs, and appends groups that
// have got available jobs at the end of the rotation, if other groups of the type have
// some. A document that only this program wrote needs neither.
func (d *decoder) giveTurns() {
	grouped := func(j *fsm.Job) bool { return j.Options().Group != "" }
	if len(d.doc.Turns) == 0 && !slices.ContainsFunc(d.doc.Jobs, grouped) {
		return
	}
	first := d.waitingGroups()
	number := make(map[string]int) // number of groups by type
	for g := range first {
		number[g.jobType]++
	}
	d.doc.Turns = slices.DeleteFunc(d.doc.Turns, func(t *fsm.Turn) bool {
		_, waits := first[group{t.Type, t.Group}]
		return !waits
	})
	for _, t := range d.doc.Turns {
		delete(first, group{t.Type, t.Group})
		d.doc.Meta.LastTurn = max(d.doc.Meta.LastTurn, t.Turn)
	}
	var late []group
	for g := range first {
		if number[g.jobType] > 1 {
			late = append(late, g)
		}
	}
	slices.SortFunc(late, func(a, b group) int { return cmp.Compare(first[a], first[b]) })
	for _, g := range late {
		d.doc.Meta.LastTurn++
		d.doc.Turns = append(d.doc.Turns, &fsm.Turn{Type: g.jobType, Group: g.name, Turn: d.doc.Meta.LastTurn})
	}
}

// waitingGroups returns the groups with available jobs, and the position of the first job
// of each.
func (d *decoder) waitingGroups() map[group]uint64 {
	first := make(map[group]uint64)
	for _, j := range d.doc.Jobs {
		if j.Status != fsm.Unclaimed {
			continue
		}
		g := group{j.Type, j.Options().Group}
		if at, known := first[g]; !known || j.Seq < at {
			first[g] = j.Seq
		}
	}
	return first
}
