package model_test

import (
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/tests/history"
	"osqueue/tests/model"
)

// lie is a change to a true history that one checker must find. It returns false
// where the history has no place for it.
type lie struct {
	name    string
	checker string
	tell    func(*history.History) bool
}

func opWhere(h *history.History, cond func(*history.Op) bool) *history.Op {
	i := slices.IndexFunc(h.Ops, func(op history.Op) bool { return cond(&op) })
	if i < 0 {
		return nil
	}
	return &h.Ops[i]
}

func acked(h *history.History, kind history.Kind) *history.Op {
	return opWhere(h, func(op *history.Op) bool { return op.Kind == kind && op.Outcome == history.OK })
}

func finalOf(h *history.History, job string) *history.Final {
	i := slices.IndexFunc(h.Finals, func(f history.Final) bool { return f.Job == job })
	if i < 0 {
		return nil
	}
	return &h.Finals[i]
}

func maxID(h *history.History) int {
	n := 0
	for _, op := range h.Ops {
		n = max(n, op.ID)
	}
	return n
}

func lineWhere(h *history.History, cond func(*history.Applied) bool) int {
	return slices.IndexFunc(h.Applied, func(l history.Applied) bool { return cond(&l) })
}

// takenAgain is a job that was handed out twice, the first attempt having ended by
// its lease only: the two claims.
func takenAgain(h *history.History) (first, second *history.Op, job string) {
	for i := range h.Ops {
		a := &h.Ops[i]
		for _, held := range a.Jobs {
			reported := opWhere(h, func(op *history.Op) bool {
				return op.Job == held.Job && op.Token == held.Token && op.Outcome != history.Refused && op.Kind != history.GetJob
			})
			b := nextClaim(h, held)
			if reported == nil && b != nil && b != a && len(b.Jobs) == 1 {
				return a, b, held.Job
			}
		}
	}
	return nil, nil, ""
}

// nextClaim is the claim of the job's next token.
func nextClaim(h *history.History, held history.Held) *history.Op {
	var next *history.Op
	var token uint64
	for i := range h.Ops {
		for _, o := range h.Ops[i].Jobs {
			if o.Job == held.Job && o.Token > held.Token && (next == nil || o.Token < token) {
				next, token = &h.Ops[i], o.Token
			}
		}
	}
	return next
}

// plain reports whether a client enqueued a job without limits, sequence and start-before, and nobody has edited it.
func plain(h *history.History, job string) bool {
	return slices.ContainsFunc(h.Ops, func(op history.Op) bool { return op.Job == job && op.Kind == history.Enqueue }) && !slices.ContainsFunc(h.Ops, func(op history.Op) bool {
		return op.Job == job && (op.Limits != "" || op.Sequence != "" || op.Before > 0 || op.Kind == history.Edit)
	})
}

func dropLines(h *history.History, cond func(*history.Applied) bool) bool {
	n := len(h.Applied)
	h.Applied = slices.DeleteFunc(h.Applied, func(l history.Applied) bool { return cond(&l) })
	return len(h.Applied) < n
}

var lies = slices.Concat(liesOfAnswers, liesOfTime, liesOfLogs, liesOfBuckets, liesOfLimits, liesOfSequences, liesOfEdits, liesOfMemory, liesOfPlans)

var liesOfAnswers = []lie{
	{"an acknowledged job is lost", "Kept", func(h *history.History) bool {
		e := acked(h, history.Enqueue)
		h.Finals = slices.DeleteFunc(h.Finals, func(f history.Final) bool { return f.Job == e.Job })
		return true
	}},
	{"a job is invented", "Kept", func(h *history.History) bool {
		h.Finals = append(h.Finals, history.Final{Job: "nobody's", Status: "completed"})
		return true
	}},
	{"a refused enqueue is there", "Kept", func(h *history.History) bool {
		acked(h, history.Enqueue).Outcome = history.Refused
		h.Applied = nil
		return true
	}},
	{"a completion is undone", "Kept", func(h *history.History) bool {
		finalOf(h, acked(h, history.Complete).Job).Status = "dead"
		return true
	}},
	{"the loser's result is kept", "Kept", func(h *history.History) bool {
		finalOf(h, acked(h, history.Complete).Job).Result = `"other"`
		return true
	}},
	{"a payload changes", "Kept", func(h *history.History) bool {
		finalOf(h, acked(h, history.Enqueue).Job).Payload = `"other"`
		return true
	}},
	{"another payload is handed out", "Kept", func(h *history.History) bool {
		c := opWhere(h, func(op *history.Op) bool { return len(op.Jobs) > 0 })
		c.Jobs = slices.Clone(c.Jobs)
		c.Jobs[0].Payload = `"other"`
		return true
	}},
	{"what was refused for certain is in the log", "Kept", func(h *history.History) bool {
		acked(h, history.Complete).Outcome = history.Refused
		return true
	}},
	{"a cancelled job is dead", "Kept", func(h *history.History) bool {
		c := opWhere(h, func(op *history.Op) bool {
			return op.Kind == history.Cancel && op.Outcome == history.OK && op.Status == "cancelled"
		})
		if c == nil {
			return false
		}
		finalOf(h, c.Job).Status = "dead"
		return true
	}},
	{"a job is completed twice", "Once", func(h *history.History) bool {
		op := *acked(h, history.Complete)
		op.ID, op.Token = maxID(h)+1, op.Token+1
		h.Ops = append(h.Ops, op)
		return true
	}},
	{"a token is given twice", "Once", func(h *history.History) bool {
		a := opWhere(h, func(op *history.Op) bool { return len(op.Jobs) > 0 })
		b := opWhere(h, func(op *history.Op) bool { return len(op.Jobs) > 0 && op.ID != a.ID })
		b.Jobs = slices.Clone(b.Jobs)
		b.Jobs[0].Token = a.Jobs[0].Token
		return true
	}},
	{"a later claim has the lower token", "Once", func(h *history.History) bool {
		a, b, job := takenAgain(h)
		if a == nil || a.Return >= b.Call {
			return false
		}
		a.Jobs = slices.Clone(a.Jobs)
		i := slices.IndexFunc(a.Jobs, func(o history.Held) bool { return o.Job == job })
		a.Jobs[i].Token = b.Jobs[0].Token + 1<<40
		return true
	}},
	{"a read shows what it was before", "Linearizable", func(h *history.History) bool {
		done := acked(h, history.Complete)
		h.Ops = append(h.Ops, history.Op{
			ID: maxID(h) + 1, Client: "r", Kind: history.GetJob, Outcome: history.OK, Job: done.Job, Token: done.Token,
			Call: done.Return + 1, Return: done.Return + 2, Status: "in_progress", Attempts: 1,
		})
		return true
	}},
	{"a job is not found that is there", "Linearizable", func(h *history.History) bool {
		e := acked(h, history.Enqueue)
		h.Ops = append(h.Ops, history.Op{
			ID: maxID(h) + 1, Client: "r", Kind: history.GetJob, Outcome: history.Refused, Tag: "not_found", Job: e.Job,
			Call: e.Return + 1, Return: e.Return + 2,
		})
		return true
	}},
	{"a claim is forgotten", "Linearizable", func(h *history.History) bool {
		done := acked(h, history.Complete)
		c := opWhere(h, func(op *history.Op) bool {
			return slices.ContainsFunc(op.Jobs, func(o history.Held) bool { return o.Token == done.Token })
		})
		if c == nil {
			return false
		}
		c.Jobs = slices.DeleteFunc(slices.Clone(c.Jobs), func(o history.Held) bool { return o.Token == done.Token })
		h.Applied = nil
		h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Outcome == history.Unknown })
		return true
	}},
	{"a stale refusal of a lease that lives", "Linearizable", func(h *history.History) bool {
		beat := acked(h, history.Heartbeat)
		if beat == nil {
			return false
		}
		beat.Outcome, beat.Tag, beat.LSN = history.Refused, "stale_token", history.LSN{}
		return true
	}},
	{"the end is another", "Linearizable", func(h *history.History) bool {
		finalOf(h, acked(h, history.Complete).Job).Token += 1 << 40
		return true
	}},
	{"something has not ended", "Ended", func(h *history.History) bool {
		h.Finals[len(h.Finals)-1].Status = "unclaimed"
		return true
	}},
	{"a read is older than it asked for", "Fresh", func(h *history.History) bool {
		r := opWhere(h, func(op *history.Op) bool {
			return op.Kind == history.Stats && !op.MinLSN.IsZero() && op.MinLSN.Index > 1
		})
		r.LSN = r.MinLSN
		r.LSN.Index--
		return true
	}},
	{"a completed job is shown as it was, by answers", "Fresh", func(h *history.History) bool { return staleRead(h, true) }},
	{"a completed job is shown as it was, by the log", "Fresh", func(h *history.History) bool { return staleRead(h, false) }},
	{"an acknowledged job is not found at its LSN", "Fresh", func(h *history.History) bool {
		e := acked(h, history.Enqueue)
		h.Ops = append(h.Ops, history.Op{
			ID: maxID(h) + 1, Client: "r", Kind: history.GetJob, Outcome: history.Refused, Tag: "not_found", Job: e.Job,
			Call: e.Return, Return: e.Return, MinLSN: e.LSN,
		})
		h.Applied = nil
		return true
	}},
}

// staleRead adds a read that asks for a completion's LSN and shows the job running.
func staleRead(h *history.History, byAnswers bool) bool {
	done := acked(h, history.Complete)
	h.Ops = append(h.Ops, history.Op{
		ID: maxID(h) + 1, Client: "r", Kind: history.GetJob, Outcome: history.OK, Job: done.Job, Token: done.Token,
		Call: done.Return, Return: done.Return, MinLSN: done.LSN, Status: "in_progress", Attempts: finalOf(h, done.Job).Attempts,
	})
	if byAnswers {
		h.Applied = nil
	} else {
		acked(h, history.Complete).LSN = history.LSN{}
	}
	return true
}

var liesOfTime = []lie{
	{"a job is handed out while its lease lives", "Leases", func(h *history.History) bool {
		a, b, _ := takenAgain(h)
		if a == nil {
			return false
		}
		b.Call, b.Return = a.Return+1, a.Return+2
		h.Applied = nil
		return true
	}},
	{"a stale token is heard", "Leases", func(h *history.History) bool {
		a, b, job := takenAgain(h)
		if a == nil {
			return false
		}
		i := slices.IndexFunc(a.Jobs, func(o history.Held) bool { return o.Job == job })
		h.Ops = append(h.Ops, history.Op{
			ID: maxID(h) + 1, Client: a.Client, Kind: history.Heartbeat, Outcome: history.OK, Job: job,
			Token: a.Jobs[i].Token, Call: b.Return + 1, Return: b.Return + 2,
		})
		return true
	}},
	{"the younger job is handed out first", "Order", func(h *history.History) bool { return outOfOrder(h) }},
	{"a waiting job is kept from who asks", "Reassigned", func(h *history.History) bool {
		h.Faults = nil
		a, b, job := takenAgain(h)
		if a == nil || !plain(h, job) || slices.ContainsFunc(h.Ops, func(op history.Op) bool {
			return op.Job == job && (op.Kind == history.Cancel || op.Kind == history.Enqueue && op.Outcome != history.OK)
		}) {
			return false
		}
		// The second claim comes 20 s later, and another one before it got nothing.
		b.Call += 20_000 * history.Millisecond
		b.Return += 20_000 * history.Millisecond
		at := b.Call - 1000*history.Millisecond
		h.Applied = h.Applied[:1+lineWhere(h, func(l *history.Applied) bool { return l.Request == a.Request })]
		h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Outcome == history.Unknown }) // a and b are others now
		h.Ops = append(h.Ops, history.Op{
			ID: maxID(h) + 1, Client: "w", Kind: history.Claim, Outcome: history.OK, Worker: "w", Max: 1, Call: at, Return: at,
		})
		return true
	}},
}

// outOfOrder swaps the claims of two jobs of one kind, where both first claims
// returned one before the other was called.
func outOfOrder(h *history.History) bool {
	h.Applied = nil
	h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Outcome == history.Unknown })
	quiet := func(e *history.Op) *history.Op {
		if e.Kind != history.Enqueue || e.Outcome != history.OK || e.Delay > 0 || !plain(h, e.Job) ||
			slices.ContainsFunc(h.Ops, func(op history.Op) bool { return op.Kind == history.Cancel && op.Job == e.Job }) {
			return nil
		}
		has := func(o history.Held) bool { return o.Job == e.Job }
		var only *history.Op
		for i := range h.Ops {
			switch op := &h.Ops[i]; {
			case !slices.ContainsFunc(op.Jobs, has):
			case only != nil || len(op.Jobs) > 1 || op.Jobs[0].Attempt > 1:
				return nil
			default:
				only = op
			}
		}
		return only
	}
	for i := range h.Ops {
		a := &h.Ops[i]
		ca := quiet(a)
		if ca == nil {
			continue
		}
		for j := range h.Ops {
			b := &h.Ops[j]
			cb := quiet(b)
			if cb != nil && a.Type == b.Type && a.Priority == b.Priority && a.Return < b.Call && ca.Return < cb.Call {
				ca.Jobs, cb.Jobs = cb.Jobs, ca.Jobs
				return true
			}
		}
	}
	return false
}

var liesOfLogs = []lie{
	{"an acknowledged enqueue is not in the log", "Kept", func(h *history.History) bool {
		e := acked(h, history.Enqueue)
		return dropLines(h, func(l *history.Applied) bool { return l.Request == e.Request })
	}},
	{"the log gives an old token", "Once", func(h *history.History) bool {
		last := 0
		for i, l := range h.Applied {
			if l.Kind == history.Claim && l.Code == "ok" && len(l.Jobs) > 0 {
				last = i
			}
		}
		h.Applied[last].Jobs = slices.Clone(h.Applied[last].Jobs)
		h.Applied[last].Jobs[0].Token = 1
		return true
	}},
	{"the log completes twice", "Once", func(h *history.History) bool {
		i := lineWhere(h, func(l *history.Applied) bool { return l.Kind == history.Complete && l.Code == "ok" })
		h.Applied = append(h.Applied, h.Applied[i])
		return true
	}},
	{"the log hands out what is completed", "Once", func(h *history.History) bool {
		i := lineWhere(h, func(l *history.Applied) bool { return l.Kind == history.Complete && l.Code == "ok" })
		l := h.Applied[i]
		l.Kind, l.LSN = history.Claim, h.Applied[len(h.Applied)-1].LSN
		l.Jobs = slices.Clone(l.Jobs)
		l.Jobs[0].Token = 1 << 60
		h.Applied = append(h.Applied, l)
		return true
	}},
	{"the log hands out what is held", "Leases", func(h *history.History) bool {
		return dropLines(h, func(l *history.Applied) bool {
			return l.Kind == history.Passed && slices.ContainsFunc(l.Jobs, func(it history.Item) bool {
				return it.End == "lease_expired" && it.Status == "unclaimed" && slices.ContainsFunc(h.Applied, func(o history.Applied) bool {
					return o.Kind == history.Claim && o.LSN.Compare(l.LSN.LSN) >= 0 &&
						slices.ContainsFunc(o.Jobs, func(i history.Item) bool { return i.Job == it.Job })
				})
			})
		})
	}},
	{"a lease ends too early in the log", "Leases", func(h *history.History) bool {
		i := lineWhere(h, leaseOver)
		if i < 0 {
			return false
		}
		h.Applied[i].Now -= 10_000
		return true
	}},
	{"the log hears a stale token", "Leases", func(h *history.History) bool {
		i := lineWhere(h, func(l *history.Applied) bool { return l.Kind == history.Complete && l.Code == "ok" })
		h.Applied[i].Jobs = slices.Clone(h.Applied[i].Jobs)
		h.Applied[i].Jobs[0].Token--
		return true
	}},
	{"a lease outlives its end", "Reassigned", func(h *history.History) bool {
		dropLines(h, func(l *history.Applied) bool { return l.Kind == history.Broker })
		i := lineWhere(h, leaseOver)
		if i < 0 {
			return false
		}
		h.Applied[i].Now += 60_000
		return true
	}},
	{"what came back is handed out last", "Reassigned", func(h *history.History) bool { return liesInLine(h) }},
	{"two in the log out of order", "Order", func(h *history.History) bool { return swapInLog(h) }},
	{"a node has another state", "Agree", func(h *history.History) bool {
		h.States[len(h.States)-1].Hash = strings.Repeat("0", 64)
		return true
	}},
	{"a snapshot has another state", "Agree", func(h *history.History) bool {
		s := h.States[0]
		s.Node, s.Source, s.Hash = "n3", model.FromSnapshot, strings.Repeat("0", 64)
		h.States = append(h.States, s)
		return true
	}},
}

func leaseOver(l *history.Applied) bool {
	return l.Kind == history.Passed && slices.ContainsFunc(l.Jobs, func(it history.Item) bool { return it.End == "lease_expired" && it.From == "in_progress" })
}

// liesInLine adds a younger job that is handed out while one that came back waits.
func liesInLine(h *history.History) bool {
	for i, l := range h.Applied {
		if !leaseOver(&l) {
			continue
		}
		it := l.Jobs[0]
		known := slices.ContainsFunc(h.Applied[:i], func(o history.Applied) bool {
			return o.Kind == history.Enqueue && o.Code == "ok" && o.Jobs[0].Job == it.Job
		})
		if it.Status != "unclaimed" || it.From != "in_progress" || !known || !plain(h, it.Job) {
			continue
		}
		young := history.Item{Job: "young", Type: it.Type, Priority: it.Priority, Status: "unclaimed", Since: l.Now}
		in, out := l, l
		in.Kind, in.Jobs = history.Enqueue, []history.Item{young}
		young.Status, young.Token = "in_progress", 1<<60
		out.Kind, out.Jobs = history.Claim, []history.Item{young}
		h.Applied = slices.Insert(h.Applied, i+1, in, out)
		return true
	}
	return false
}

// swapInLog swaps two first claims of one kind.
func swapInLog(h *history.History) bool {
	delayed := make(map[string]bool)
	for _, l := range h.Applied {
		for _, it := range l.Jobs {
			if l.Kind == history.Enqueue && it.Status != "unclaimed" {
				delayed[it.Job] = true
			}
		}
	}
	first := func(l *history.Applied) bool {
		return l.Kind == history.Claim && l.Code == "ok" && len(l.Jobs) == 1 && l.Jobs[0].Attempts == 1 && !delayed[l.Jobs[0].Job] && plain(h, l.Jobs[0].Job) &&
			!slices.ContainsFunc(h.Applied, func(o history.Applied) bool { return o.Kind == history.Release && o.Jobs[0].Job == l.Jobs[0].Job })
	}
	for i := range h.Applied {
		a := &h.Applied[i]
		for j := range h.Applied[i+1:] {
			b := &h.Applied[i+1+j]
			if first(a) && first(b) && a.Jobs[0].Type == b.Jobs[0].Type && a.Jobs[0].Priority == b.Jobs[0].Priority {
				before := lineWhere(h, func(l *history.Applied) bool {
					return l.Kind == history.Enqueue && l.Jobs != nil && l.Jobs[0].Job == b.Jobs[0].Job
				})
				if before >= 0 && before < i {
					a.Jobs, b.Jobs = b.Jobs, a.Jobs
					return true
				}
			}
		}
	}
	return false
}

var liesOfBuckets = []lie{
	{"the LSN goes back", "Documents", func(h *history.History) bool {
		n := len(h.Documents)
		h.Documents[n-1].LSN = history.LSN{LSN: fsm.LSN{Term: 1, Index: 1}}
		return true
	}},
	{"the epoch goes back", "Documents", func(h *history.History) bool {
		h.Documents[len(h.Documents)-1].Epoch = 0
		return true
	}},
	{"two write with one epoch", "Documents", func(h *history.History) bool {
		d := h.Documents[len(h.Documents)-1]
		d.Node = "n9"
		h.Documents = append(h.Documents, d)
		return true
	}},
	{"the lineage changes", "Documents", func(h *history.History) bool {
		h.Documents[len(h.Documents)-1].Lineage = "x"
		return true
	}},
	{"a version is another state", "Documents", func(h *history.History) bool {
		h.Documents[len(h.Documents)-1].Hash = "00"
		return true
	}},
	{"two states of one LSN", "Documents", func(h *history.History) bool {
		d := h.Documents[len(h.Documents)-1]
		d.Hash, d.Replay = "00", ""
		h.Documents = append(h.Documents, d)
		h.Applied = nil
		return true
	}},
	{"a version of no log", "Documents", func(h *history.History) bool {
		h.Documents[len(h.Documents)-1].Replay = ""
		return true
	}},
	{"acknowledged before it was in the bucket", "Safe", func(h *history.History) bool {
		op := opWhere(h, func(op *history.Op) bool { return op.Committed == "object" })
		for i := range h.Documents {
			h.Documents[i].At += 1 << 50
		}
		return op != nil
	}},
	{"acknowledged and in no version", "Safe", func(h *history.History) bool {
		op := opWhere(h, func(op *history.Op) bool { return op.Committed == "object" })
		if op == nil {
			return false
		}
		h.Documents = slices.DeleteFunc(h.Documents, func(d history.Document) bool { return d.LSN.Compare(op.LSN.LSN) >= 0 })
		for i := range h.Documents {
			h.Documents[i].At = 0
		}
		return len(h.Documents) > 0
	}},
	{"lost with the nodes", "Safe", func(h *history.History) bool {
		op := opWhere(h, func(op *history.Op) bool { return op.Committed == "object" && op.Kind == history.Enqueue })
		if op == nil {
			return false
		}
		h.Faults = append(h.Faults, history.Fault{Name: "all-lost", Hit: true, Loses: true})
		h.Finals = slices.DeleteFunc(h.Finals, func(f history.Final) bool { return f.Job == op.Job })
		return true
	}},
	{"undone with the nodes", "Safe", func(h *history.History) bool {
		op := opWhere(h, func(op *history.Op) bool { return op.Committed == "object" && op.Kind == history.Complete })
		if op == nil {
			return false
		}
		h.Faults = append(h.Faults, history.Fault{Name: "all-lost", Hit: true, Loses: true})
		finalOf(h, op.Job).Status = "unclaimed"
		return true
	}},
	{"done again after it was in the bucket", "Safe", func(h *history.History) bool {
		op := opWhere(h, func(op *history.Op) bool { return op.Committed == "object" && op.Kind == history.Complete })
		if op == nil {
			return false
		}
		h.Faults = append(h.Faults, history.Fault{Name: "all-lost", Hit: true, Loses: true})
		h.Ops = append(h.Ops, history.Op{
			ID: maxID(h) + 1, Client: "w", Kind: history.Claim, Outcome: history.OK, Call: op.Return + 1, Return: op.Return + 2,
			Jobs: []history.Held{{Job: op.Job, Token: 1 << 60}},
		})
		return true
	}},
}

// copied is the history with lists of its own, so that a lie stays in it. Lists
// within its members are shared: lies copy these.
func copied(h *history.History) *history.History {
	c := *h
	c.Ops, c.Faults, c.Applied = slices.Clone(h.Ops), slices.Clone(h.Faults), slices.Clone(h.Applied)
	c.Documents, c.States, c.Finals = slices.Clone(h.Documents), slices.Clone(h.States), slices.Clone(h.Finals)
	return &c
}

// TestEachLieIsFound tells each lie in several true histories.
func TestEachLieIsFound(t *testing.T) {
	var truths []*history.History
	for seed := range uint64(12) {
		h := simulate(seed, 300, seed%2 == 0)
		for _, v := range model.Check(h, model.Options{}) {
			if v.Result == model.Violated {
				t.Fatalf("seed %d: before any lie: %s: %v", seed, v.Checker, v.Violations)
			}
		}
		truths = append(truths, h)
	}
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			told := 0
			for seed, truth := range truths {
				h := copied(truth)
				if !l.tell(h) {
					continue
				}
				told++
				if v := verdictOf(h, l.checker); v.Result != model.Violated {
					t.Errorf("seed %d: %s says %s (%s)", seed, l.checker, v.Result, v.Note)
				}
			}
			if told == 0 {
				t.Error("no history has a place for this lie")
			}
		})
	}
	for seed, truth := range truths {
		for _, v := range model.Check(truth, model.Options{}) {
			if v.Result == model.Violated {
				t.Errorf("seed %d: a lie got into the truth: %s", seed, v.Checker)
			}
		}
	}
}
