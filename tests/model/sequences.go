package model

import (
	"cmp"
	"slices"

	"osqueue/tests/history"
)

// sequential: a job of a sequence starts when all jobs that were accepted before it have ended.
func sequential(f *facts, v *Verdict) {
	f.sequencesInLog(v)
	f.sequencesByAnswers(v)
}

// sequencesInLog checks that a job that is handed out has no job of its sequence before it, and that none of it runs.
func (f *facts) sequencesInLog(v *Verdict) {
	open := make(map[string][]history.Item) // by sequence, those that have not ended, in the order of acceptance
	for _, l := range f.log {
		if l.Code != okCode {
			continue
		}
		for _, it := range l.Jobs {
			if it.Sequence == "" || !didItem(it) {
				continue
			}
			all := open[it.Sequence]
			at := slices.IndexFunc(all, func(o history.Item) bool { return o.Job == it.Job })
			if l.Kind == history.Claim {
				v.Checked++
				for i, o := range all {
					if i != at && (i < at || o.Status == runningStatus) {
						v.broken(f.opsOf(o.Job, it.Job), "log %s: job %s of sequence %s starts while %s, which is %s, has not ended",
							l.LSN, it.Job, it.Sequence, o.Job, o.Status)
						break
					}
				}
			}
			open[it.Sequence] = follow(all, at, it)
			if l.Kind == history.Snapshot { // it lists jobs by status
				slices.SortFunc(open[it.Sequence], func(a, b history.Item) int { return cmp.Compare(a.Seq, b.Seq) })
			}
		}
	}
}

// follow notes the state of a job, which is the one at the index; -1: it is new.
func follow(all []history.Item, at int, it history.Item) []history.Item {
	over := hasEnded(it.Status) || it.Status == Gone
	switch {
	case over && at >= 0:
		return slices.Delete(all, at, at+1)
	case over:
		return all
	case at >= 0:
		all[at] = it
		return all
	}
	return append(all, it)
}

// sequencesByAnswers: of two jobs of which one was acknowledged before the other was sent, no claim or heartbeat of the one
// succeeds that was called after a claim of the other had returned.
func (f *facts) sequencesByAnswers(v *Verdict) {
	started := make(map[string]*history.Op) // the first to return
	alive := make(map[string][]*history.Op)
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			if o := started[held.Job]; o == nil || op.Return < o.Return {
				started[held.Job] = op
			}
			alive[held.Job] = append(alive[held.Job], op)
		}
		if op.Kind == history.Heartbeat && op.Outcome == history.OK {
			alive[op.Job] = append(alive[op.Job], op)
		}
	}
	of := make(map[string][]*history.Op)
	for _, op := range f.ops {
		if op.Kind == history.Enqueue && op.Outcome == history.OK && op.Sequence != "" {
			of[op.Sequence] = append(of[op.Sequence], op)
		}
	}
	for _, name := range sortedKeys(of) {
		for _, b := range of[name] {
			start := started[b.Job]
			if start == nil {
				continue
			}
			v.Checked++
			for _, a := range of[name] {
				if a.Return >= b.Call || f.mayBeLost(a, start) {
					continue
				}
				for _, op := range alive[a.Job] {
					if op.Call > start.Return && !f.mayBeLost(start, op) {
						v.broken([]int{a.ID, b.ID, start.ID, op.ID}, "job %s of sequence %s has started by %.3f s, and %s, which came before it, still runs later",
							b.Job, name, start.Return.Seconds(), a.Job)
					}
				}
			}
		}
	}
}
