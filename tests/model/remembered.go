package model

import (
	"slices"

	"osqueue/tests/history"
)

// remembered: a step of a job has one value, which every later attempt gets; and it gets each signal that was acknowledged, once.
func remembered(f *facts, v *Verdict) {
	value := make(map[[2]string]*history.Op) // the operation that shows it first, by job and name
	one := func(op *history.Op, job, name, kept string, of func(*history.Op) string) {
		key := [2]string{job, name}
		v.Checked++
		if first := value[key]; first == nil {
			value[key] = op
		} else if had := of(first); had != kept && !f.mayBeLost(first, op) {
			v.broken([]int{first.ID, op.ID}, "step %s of job %s is %s, and was %s", name, job, kept, had)
		}
	}
	claims := make(map[string][]*history.Op)
	for _, op := range f.ops {
		if op.Outcome != history.OK {
			continue
		}
		if op.Kind == history.Step {
			one(op, op.Job, op.Name, op.Kept, func(first *history.Op) string { return stepIn(first, op.Job, op.Name) })
		}
		for _, held := range op.Jobs {
			claims[held.Job] = append(claims[held.Job], op)
			for name, kept := range held.Steps {
				one(op, held.Job, name, kept, func(first *history.Op) string { return stepIn(first, held.Job, name) })
			}
		}
	}
	sent := make(map[string]*history.Op) // signals by value
	for _, op := range f.ops {
		switch op.Kind {
		case history.Signal:
			sent[op.Value] = op
		case history.Step:
		default:
			continue
		}
		if op.Outcome == history.OK {
			f.rememberedBy(v, op, claims[op.Job])
		}
	}
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			for i, got := range held.Signals {
				switch from := sent[got]; {
				case from == nil || from.Job != held.Job:
					v.broken([]int{op.ID}, "job %s has got the signal %s, which nobody has sent it", held.Job, got)
				case from.Outcome == history.Refused:
					v.broken([]int{from.ID, op.ID}, "job %s has got the signal %s, which was refused: %s", held.Job, got, from.Tag)
				case slices.Contains(held.Signals[:i], got):
					v.broken([]int{from.ID, op.ID}, "job %s has got the signal %s twice", held.Job, got)
				}
			}
		}
	}
}

// stepIn is the value of a step in an operation that shows it.
func stepIn(op *history.Op, job, name string) string {
	for _, held := range op.Jobs {
		if held.Job == job {
			return held.Steps[name]
		}
	}
	return op.Kept
}

// rememberedBy holds a step or signal that was acknowledged against the claims that began later.
func (f *facts) rememberedBy(v *Verdict, op *history.Op, claims []*history.Op) {
	for _, claim := range claims {
		if claim.Call <= op.Return || f.mayBeLost(op, claim) {
			continue
		}
		for _, held := range claim.Jobs {
			if held.Job != op.Job {
				continue
			}
			v.Checked++
			if _, has := held.Steps[op.Name]; op.Kind == history.Step && !has || op.Kind == history.Signal && !slices.Contains(held.Signals, op.Value) {
				v.broken([]int{op.ID, claim.ID}, "the attempt of job %s under token %d lacks the %s %s, which was acknowledged before",
					held.Job, held.Token, op.Kind, op.Name)
			}
		}
	}
}
