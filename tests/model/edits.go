package model

import (
	"slices"

	"osqueue/tests/history"
)

// edited: an attempt has the payload of the last edit, and of no edit that was refused; an edit for a revision makes the next one.
func edited(f *facts, v *Verdict) {
	for _, op := range f.ops {
		if op.Kind == history.Edit && op.Outcome == history.OK && op.IfRevision != nil {
			if v.Checked++; op.Revision != *op.IfRevision+1 {
				v.broken([]int{op.ID}, "job %s was edited for revision %d, and has revision %d then", op.Job, *op.IfRevision, op.Revision)
			}
		}
	}
	given := f.payloads()
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			if len(given[held.Job]) > 1 && held.Payload != "" { // it has edits
				v.Checked++
				f.editsSeen(v, op, held, given[held.Job])
			}
		}
	}
}

// payloads are the operations that give a job its payload: the enqueue, then the edits, whatever their outcomes.
func (f *facts) payloads() map[string][]*history.Op {
	by := make(map[string][]*history.Op)
	for job, e := range f.enqueue {
		by[job] = append(by[job], e)
	}
	for _, op := range f.ops {
		if op.Kind == history.Edit {
			by[op.Job] = append(by[op.Job], op)
		}
	}
	return by
}

// editsSeen checks one attempt. Of the edits that may have given it its payload, one must not be certain to come before another
// edit that was acknowledged before the claim.
func (f *facts) editsSeen(v *Verdict, claim *history.Op, held history.Held, given []*history.Op) {
	i := slices.IndexFunc(given, func(op *history.Op) bool { return op.Payload == held.Payload })
	if i < 0 {
		v.broken([]int{claim.ID}, "job %s is handed out with payload %s, which nobody has given it", held.Job, held.Payload)
		return
	}
	source := given[i]
	if source.Outcome == history.Refused {
		v.broken([]int{source.ID, claim.ID}, "job %s is handed out with payload %s, and that edit was refused: %s", held.Job, held.Payload, source.Tag)
	}
	for _, e := range given[1:] {
		later := source.Outcome != history.Unknown && source.Return < e.Call && e.Outcome == history.OK
		if later && e.Return < claim.Call && !f.mayBeLost(e, claim) {
			v.broken([]int{source.ID, e.ID, claim.ID}, "job %s is handed out with payload %s, and an edit to %s was acknowledged before",
				held.Job, held.Payload, e.Payload)
		}
	}
}

// snoozed: a job that was released for a time is not handed out before, by the machine's clock, and the released attempt does not
// count.
func snoozed(f *facts, v *Verdict) {
	asked := make(map[string]*history.Op)
	for _, op := range f.ops {
		if op.Request != "" {
			asked[op.Request] = op
		}
	}
	type sleep struct {
		op       *history.Op
		until    int64 // ms
		attempts int
	}
	sleeps, attempts := make(map[string]sleep), make(map[string]int)
	for _, l := range f.log {
		if l.Code != okCode {
			continue
		}
		for _, it := range l.Jobs {
			if !didItem(it) {
				continue
			}
			s, is := sleeps[it.Job]
			switch op := asked[l.Request]; {
			case l.Kind == history.Release && op != nil && op.Delay > 0 && it.Status != cancelled:
				until := l.Now + int64(op.Delay/history.Millisecond)
				if l.Until != 0 { // it was suspended, by the clock of the node that it asked
					until = l.Until
				}
				sleeps[it.Job] = sleep{op, until, attempts[it.Job]}
			case l.Kind == history.Edit && (op == nil || op.Delay > 0):
				s.until = 0 // it has another time
				sleeps[it.Job] = s
			case l.Kind == history.Claim:
				attempts[it.Job] = it.Attempts
				delete(sleeps, it.Job)
				if !is || s.op == nil {
					continue
				}
				v.Checked++
				if l.Now < s.until {
					v.broken([]int{s.op.ID}, "log %s: job %s starts at %d ms, and was released until %d", l.LSN, it.Job, l.Now, s.until)
				}
				if s.attempts > 0 && it.Attempts != s.attempts {
					v.broken([]int{s.op.ID}, "log %s: job %s starts its attempt %d, and attempt %d was released", l.LSN, it.Job, it.Attempts, s.attempts)
				}
			}
		}
	}
}
