package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"osqueue/tests/history"
)

// Result is the result of a check.
type Result string

// The results.
const (
	OK       Result = "ok"
	Violated Result = "violations"
	Void     Result = "void"    // the history has nothing that this checker could judge
	TimedOut Result = "timeout" // neither passed nor failed: it takes too long to find out
)

// Violation is one broken promise.
type Violation struct {
	Text string
	Ops  []int // ids of the operations that show it
}

// Verdict is the result of one checker on a history.
type Verdict struct {
	Checker    string
	Result     Result
	Checked    int    // how many things were looked at
	Note       string // why it is void, or what else is to be known
	Violations []Violation
	More       int // violations beyond those listed
}

// violationsMax bounds what one checker lists: a broken queue breaks everything.
const violationsMax = 100

// Checker is one promise, and how a history is held against it.
type Checker struct {
	Name    string
	Promise string
	run     func(*facts, *Verdict)
}

// Options bound the work of checkers.
type Options struct {
	// Patience is how long Linearizable may take, over all jobs; 0 is a minute.
	Patience time.Duration
}

// Checkers are all of them.
func Checkers() []Checker {
	return []Checker{
		{"Kept", "no acknowledged job is lost, none is invented, completions stay", kept},
		{"Once", "one completion a job; no token twice; tokens only grow", once},
		{"Leases", "no two live leases on a job, by token and by time", leases},
		{"Order", "FIFO by type and priority, with ageing, among jobs never delayed or retried", order},
		{"Ended", "after healing, everything ends", ended},
		{"Linearizable", "each job is a register", linearizable},
		{"Fresh", "reads with minLsn show at least that LSN", fresh},
		{"Documents", "LSN and epoch never go back; each version is the state at its LSN", versions},
		{"Agree", "equal hashes on all nodes at an equal LSN", agree},
		{"Safe", "what was acknowledged at object is in the bucket", safe},
		{"Limited", "no limit is exceeded: jobs that run, starts, holds", limited},
		{"Sequential", "jobs of a sequence start one after another, in the order of acceptance", sequential},
		{"Edited", "the next attempt sees an acknowledged edit, and none a refused one", edited},
		{"Snoozed", "a released job does not start before its time, and its attempt does not count", snoozed},
		{"Remembered", "every attempt gets the steps and signals that were acknowledged before, and a step has one value", remembered},
		{"Expired", "no job starts after its start-before, none that has started expires", expired},
		{"Scheduled", "a schedule fires once for each of its times, or says how many it missed", scheduled},
		{"Readable", "an acknowledged artefact can be read, with its bytes", readable},
		{"Reassigned", "jobs of a dead worker are handed out again within lease + 1 s", reassigned},
	}
}

// Check runs all checkers over a history.
func Check(h *history.History, opt Options) []Verdict {
	f := newFacts(h, opt)
	var all []Verdict
	for _, c := range Checkers() {
		all = append(all, c.check(f))
	}
	return all
}

// Check runs one checker over a history.
func (c Checker) Check(h *history.History, opt Options) Verdict { return c.check(newFacts(h, opt)) }

func (c Checker) check(f *facts) Verdict {
	v := Verdict{Checker: c.Name}
	c.run(f, &v)
	return v.settled()
}

// settled decides what the result is.
func (v Verdict) settled() Verdict {
	switch {
	case len(v.Violations) > 0:
		v.Result = Violated
	case v.Result != "":
	case v.Checked == 0:
		v.Result = Void
		if v.Note == "" {
			v.Note = "nothing to check"
		}
	default:
		v.Result = OK
	}
	return v
}

// void says that there is nothing to judge by.
func (v *Verdict) void(format string, args ...any) {
	v.Result, v.Note = Void, fmt.Sprintf(format, args...)
}

// broken notes a violation, with the operations that show it.
func (v *Verdict) broken(ops []int, format string, args ...any) {
	if len(v.Violations) == violationsMax {
		v.More++
		return
	}
	v.Violations = append(v.Violations, Violation{Text: fmt.Sprintf(format, args...), Ops: ops})
}

// Hits says how many of the faults have hit.
func Hits(h *history.History) (hit, all int) {
	for _, f := range h.Faults {
		if f.Hit {
			hit++
		}
	}
	return hit, len(h.Faults)
}

// facts are a history as checkers want to see it.
type facts struct {
	h       *history.History
	opt     Options
	ops     []*history.Op          // by call
	enqueue map[string]*history.Op // by job, whatever its outcome
	final   map[string]*history.Final
	log     []*history.Applied          // of the nodes, as one
	whole   bool                        // the log begins with the cluster
	took    map[string]*history.Applied // by request: where it took effect
	loses   bool                        // a fault has lost what was not in the bucket
	// foreign is what the log has of clients that are not in the history, and
	// foreignJob the jobs of it.
	foreign      []*history.Applied
	foreignJob   map[string]bool
	ofSchedule   map[string]bool          // jobs that a schedule enqueued
	claimedInLog map[string]bool          // made when it is needed
	setLimits    map[string][]*history.Op // by pattern, likewise
}

func newFacts(h *history.History, opt Options) *facts {
	f := &facts{
		h: h, opt: opt, enqueue: make(map[string]*history.Op), final: make(map[string]*history.Final),
		took: make(map[string]*history.Applied), foreignJob: make(map[string]bool), ofSchedule: make(map[string]bool),
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		f.ops = append(f.ops, op)
		if op.Kind == history.Enqueue {
			f.enqueue[op.Job] = op
		}
	}
	slices.SortStableFunc(f.ops, func(a, b *history.Op) int { return cmp.Compare(a.Call, b.Call) })
	for i := range h.Finals {
		f.final[h.Finals[i].Job] = &h.Finals[i]
	}
	for _, fault := range h.Faults {
		f.loses = f.loses || fault.Loses && fault.Hit
	}
	f.readLog()
	f.readSchedules()
	return f
}

// readSchedules notes the jobs that no client has enqueued.
func (f *facts) readSchedules() {
	note := func(job string, of history.Scheduled) {
		if of.Schedule != "" {
			f.ofSchedule[job] = true
		}
	}
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			note(held.Job, held.Scheduled)
		}
	}
	for _, l := range f.log {
		for _, it := range l.Jobs {
			note(it.Job, it.Scheduled)
		}
	}
	for i := range f.h.Finals {
		note(f.h.Finals[i].Job, f.h.Finals[i].Scheduled)
	}
}

// readLog makes one log of those of the nodes, and finds what it says of operations.
func (f *facts) readLog() {
	f.log = joined(f.h.Applied)
	f.whole = len(f.log) > 0 && f.log[0].Kind != history.Snapshot
	own := make(map[string]bool)
	for _, op := range f.ops {
		own[op.Request] = op.Request != ""
	}
	for _, l := range f.log {
		if !own[l.Request] && fromClient(l.Kind) && tookEffect(l) {
			f.foreign = append(f.foreign, l)
		}
		if l.Request == "" {
			continue
		}
		if f.took[l.Request] == nil && tookEffect(l) {
			f.took[l.Request] = l
		}
	}
	for _, l := range f.foreign {
		for _, it := range l.Jobs {
			f.foreignJob[it.Job] = true
		}
	}
}

// joined is the longest log that the nodes' logs make: the one that begins first,
// and behind its end what the one has that reaches furthest.
func joined(lines []history.Applied) []*history.Applied {
	byNode := make(map[string][]*history.Applied)
	for i := range lines {
		byNode[lines[i].Node] = append(byNode[lines[i].Node], &lines[i])
	}
	var base, far []*history.Applied
	for _, node := range sortedKeys(byNode) {
		log := byNode[node]
		if far == nil || further(log, far) {
			far = log
		}
		if log[0].Kind != history.Snapshot && (base == nil || further(log, base)) {
			base = log
		}
	}
	if base == nil || !further(far, base) {
		return far
	}
	last := base[len(base)-1].LSN
	if far[0].Kind == history.Snapshot && far[0].LSN.Compare(last.LSN) > 0 {
		return far // there is a gap between them
	}
	for _, l := range far {
		if l.LSN.Compare(last.LSN) > 0 {
			base = append(base, l)
		}
	}
	return base
}

func further(a, b []*history.Applied) bool {
	if c := a[len(a)-1].LSN.Compare(b[len(b)-1].LSN.LSN); c != 0 {
		return c > 0
	}
	return len(a) > len(b)
}

// fromClient reports whether such a line is of what a client asked for.
func fromClient(k history.Kind) bool {
	switch k {
	case history.Enqueue, history.Claim, history.Complete, history.Fail, history.Release, history.Cancel, history.Edit:
		return true
	}
	return false
}

const okCode = "ok"

// tookEffect reports whether the mutation did something.
func tookEffect(l *history.Applied) bool {
	if l.Code != okCode || l.Kind == history.Claim && len(l.Jobs) == 0 {
		return false
	}
	return len(l.Jobs) == 0 || slices.ContainsFunc(l.Jobs, didItem)
}

// didItem reports whether this job was changed by its line.
func didItem(it history.Item) bool { return it.Code == "" || it.Code == okCode }

// handed are the jobs that a claim handed out, as its answer and the log say. An
// answer that came at a second try lacks those whose leases were over by then.
func (f *facts) handed(op *history.Op) []history.Held {
	all := slices.Clone(op.Jobs)
	l := f.took[op.Request]
	if op.Request == "" || l == nil {
		return all
	}
	for _, it := range l.Jobs {
		if !slices.ContainsFunc(all, func(h history.Held) bool { return h.Job == it.Job && h.Token == it.Token }) {
			all = append(all, history.Held{
				Job: it.Job, Token: it.Token, Attempt: it.Attempts, Type: it.Type, Priority: it.Priority, Lease: it.Lease, Confirm: it.Confirm,
			})
		}
	}
	return all
}

// unseen counts the claims whose jobs are not known.
func (f *facts) unseen() int {
	n := 0
	for _, op := range f.ops {
		if op.Kind == history.Claim && op.Outcome == history.Unknown && !f.whole && f.took[op.Request] == nil {
			n++
		}
	}
	return n
}

// certain returns the outcome of a write: by its answer, else by the log.
func (f *facts) certain(op *history.Op) (did, known bool) {
	switch op.Outcome {
	case history.OK:
		return true, true
	case history.Refused:
		return false, true
	}
	if op.Request == "" {
		return false, false
	}
	if f.took[op.Request] != nil {
		return true, true
	}
	return false, f.whole
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
