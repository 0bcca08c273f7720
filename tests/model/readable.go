package model

import "osqueue/tests/history"

// readable: whoever opens an artefact after its acknowledgement gets it, and nobody gets other bytes. The names are never used again.
func readable(f *facts, v *Verdict) {
	given := make(map[[2]string]*history.Op) // by job and name
	for _, op := range f.ops {
		if op.Kind == history.Attach {
			given[[2]string{op.Job, op.Name}] = op
		}
	}
	for _, op := range f.ops {
		from := given[[2]string{op.Job, op.Name}]
		if op.Kind != history.Open || op.Outcome == history.Unknown || from == nil {
			continue
		}
		v.Checked++
		switch {
		case op.Outcome == history.OK && op.Value != from.Value:
			v.broken([]int{from.ID, op.ID}, "artefact %s of job %s is %q, and was %q", op.Name, op.Job, op.Value, from.Value)
		case op.Outcome == history.Refused && from.Outcome == history.OK && from.Return < op.Call && !f.mayBeLost(from, op):
			v.broken([]int{from.ID, op.ID}, "artefact %s of job %s was acknowledged, and cannot be read: %s", op.Name, op.Job, op.Tag)
		case op.Outcome == history.OK && from.Outcome == history.Refused:
			v.broken([]int{from.ID, op.ID}, "artefact %s of job %s was refused, and can be read", op.Name, op.Job)
		}
	}
}
