package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"osqueue/tests/history"
)

// The bounds of the search: over all jobs, and for one.
const (
	patienceAll = time.Minute
	patienceJob = 10 * time.Second
)

// linearizable: the calls on each job can be put into an order that contradicts
// neither time nor any answer. Jobs do not depend on each other here, so each is
// searched alone.
func linearizable(f *facts, v *Verdict) {
	if f.loses {
		v.void("a fault has lost what was not in the bucket: see Safe")
		return
	}
	if n := f.unseen(); n > 0 {
		v.void("%d claims ended with an unknown outcome, and there is no whole log that says what they took", n)
		return
	}
	calls := f.calls()
	m := registerModel()
	patience := f.opt.Patience
	if patience == 0 {
		patience = patienceAll
	}
	end := time.Now().Add(patience)
	for _, job := range sortedKeys(calls) {
		left := time.Until(end)
		if left <= 0 {
			v.late("after %d of %d jobs: %v were not enough", v.Checked, len(calls), patience)
			return
		}
		switch porcupine.CheckOperationsTimeout(m, calls[job], min(left, patienceJob)) {
		case porcupine.Ok:
			v.Checked++
		case porcupine.Illegal:
			v.Checked++
			v.broken(idsOf(calls[job]), "job %s: no order of its %d calls agrees with their answers: %s",
				job, len(calls[job]), describe(calls[job]))
		case porcupine.Unknown:
			v.late("job %s with %d calls", job, len(calls[job]))
		}
	}
}

// late says that there was no time to find out.
func (v *Verdict) late(format string, args ...any) {
	v.Result, v.Note = TimedOut, fmt.Sprintf(format, args...)
}

// registerModel is the register as Porcupine wants it.
func registerModel() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) []any {
			var to []any
			for _, r := range steps(state.(register), input.(call)) {
				to = append(to, r)
			}
			return to
		},
	}).ToModel()
}

// calls are all calls, by job.
func (f *facts) calls() map[string][]porcupine.Operation {
	all := make(map[string][]porcupine.Operation)
	var last history.Time
	for _, op := range f.ops {
		last = max(last, op.Return)
		for _, c := range f.callsOf(op) {
			job := cmp.Or(op.Job, c.held.Job)
			ends := op.Return
			if op.Outcome == history.Unknown {
				ends = history.Never
			}
			all[job] = append(all[job], porcupine.Operation{Input: c, Call: int64(op.Call), Return: int64(ends)})
		}
	}
	for _, l := range f.foreign {
		for _, c := range callsOfLine(l) {
			all[c.op.Job] = append(all[c.op.Job], porcupine.Operation{Input: c, Return: int64(history.Never)})
		}
	}
	for job := range f.ofSchedule {
		c := call{op: &history.Op{Client: "schedule", Kind: history.Enqueue, Outcome: history.OK, Job: job, Return: history.Never}}
		all[job] = append(all[job], porcupine.Operation{Input: c, Return: int64(history.Never)})
	}
	if len(f.final) > 0 {
		for job := range all {
			c := call{op: f.finalRead(job, last+1)}
			all[job] = append(all[job], porcupine.Operation{Input: c, Call: int64(c.op.Call), Return: int64(c.op.Return)})
		}
	}
	return all
}

// finalRead is the job as it was at the end, as a read.
func (f *facts) finalRead(job string, at history.Time) *history.Op {
	op := &history.Op{Client: "end", Kind: history.GetJob, Call: at, Return: at, Outcome: history.OK, Job: job}
	if j := f.final[job]; j != nil {
		op.Status, op.Token, op.Attempts, op.Result = j.Status, j.Token, j.Attempts, j.Result
	} else {
		op.Outcome, op.Tag = history.Refused, notFound
	}
	return op
}

// callsOf returns one operation as calls on jobs. It leaves out operations that certainly
// had no effect and whose answer says nothing about the jobs.
func (f *facts) callsOf(op *history.Op) []call {
	switch op.Kind {
	case history.Claim:
		var all []call
		for _, held := range f.handed(op) {
			all = append(all, call{op: op, held: held})
		}
		return all
	case history.Stats, history.SetLimit, history.SetType, history.Schedule, history.Signal, history.Open:
		return nil
	case history.GetJob:
		if op.Outcome == history.Unknown || !op.MinLSN.IsZero() || op.Outcome == history.Refused && op.Tag != notFound {
			return nil
		}
		return []call{{op: op}}
	}
	if op.Kind == history.Throttle && op.Job == "" {
		return nil
	}
	if op.Outcome != history.Unknown {
		return []call{{op: op}}
	}
	if op.Kind == history.Heartbeat || op.Kind == history.Throttle || op.Kind == history.Step || op.Kind == history.Attach {
		return nil
	}
	did, known := f.certain(op)
	if known && !did {
		return nil
	}
	return []call{{op: op, free: !known, blind: true}}
}

// callsOfLine are the calls of a client that is not in the history, as the log has
// them: they happened, some time.
func callsOfLine(l *history.Applied) []call {
	var all []call
	for _, it := range l.Jobs {
		if !didItem(it) {
			continue
		}
		op := &history.Op{
			Client: l.Worker, Kind: l.Kind, Outcome: history.OK, Job: it.Job, Token: it.Token, Result: it.Result,
			Permanent: it.Status == dead,
		}
		held := history.Held{Job: it.Job, Token: it.Token, Attempt: it.Attempts, Confirm: it.Confirm}
		all = append(all, call{op: op, held: held, blind: true})
	}
	return all
}

func idsOf(calls []porcupine.Operation) []int {
	var ids []int
	for _, c := range calls {
		if id := c.Input.(call).op.ID; id > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// describeMax bounds the calls that a violation spells out.
const describeMax = 40

// describe is the calls in words, by time.
func describe(calls []porcupine.Operation) string {
	var parts []string
	for i, c := range calls {
		if i == describeMax {
			parts = append(parts, "…")
			break
		}
		in := c.Input.(call)
		parts = append(parts, inWords(in, c))
	}
	return strings.Join(parts, "; ")
}

func inWords(in call, c porcupine.Operation) string {
	op := in.op
	what := fmt.Sprintf("%d %s %s", op.ID, op.Client, op.Kind)
	if token := max(op.Token, in.held.Token); token > 0 {
		what += fmt.Sprintf(" token %d", token)
	}
	if op.Status != "" {
		what += " is " + op.Status
	}
	how := string(op.Outcome)
	if op.Tag != "" {
		how += " " + op.Tag
	}
	end := "∞"
	if c.Return != int64(history.Never) {
		end = fmt.Sprintf("%.3f", history.Time(c.Return).Seconds())
	}
	return fmt.Sprintf("[%.3f–%s] %s (%s)", op.Call.Seconds(), end, what, how)
}
