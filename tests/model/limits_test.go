package model_test

import (
	"testing"

	"osqueue/tests/history"
	"osqueue/tests/model"
)

// answers makes a history of operations, each of which succeeds and takes 1 ms, 10 ms after the last one.
func answers(ops ...history.Op) *history.History {
	h := new(history.History)
	for i, op := range ops {
		op.ID, op.Client = i+1, "c"
		if op.Outcome == "" {
			op.Outcome = history.OK
		}
		if op.Return == 0 {
			op.Call = history.Time(10*i) * history.Millisecond
			op.Return = op.Call + history.Millisecond
		}
		h.Ops = append(h.Ops, op)
	}
	return h
}

// lossAt adds a fault, at that ms, that loses what is not in the bucket.
func lossAt(ms history.Time, h *history.History) *history.History {
	h.Faults = []history.Fault{{Name: "loss", Hit: true, Loses: true, Begin: ms * history.Millisecond, End: (ms + 1) * history.Millisecond}}
	return h
}

func limitOf(pattern string, running int64) history.Op {
	op := history.Op{Kind: history.SetLimit, Limit: pattern}
	if running > 0 {
		op.Rule = &history.Rule{Running: running}
	}
	return op
}

func sentOf(job, limits, sequence string) history.Op {
	return history.Op{Kind: history.Enqueue, Job: job, Limits: limits, Sequence: sequence}
}

func claimOf(jobs ...string) history.Op {
	op := history.Op{Kind: history.Claim, Max: len(jobs)}
	for _, job := range jobs {
		op.Jobs = append(op.Jobs, history.Held{Job: job, Token: tokenOf(job), Attempt: 1})
	}
	return op
}

func reportOf(kind history.Kind, job string) history.Op {
	return history.Op{Kind: kind, Job: job, Token: tokenOf(job)}
}

func tokenOf(job string) uint64 { return uint64(job[0]) }

func outcomeOf(op history.Op, o history.Outcome) history.Op {
	op.Outcome = o
	return op
}

// TestAnswersAlone has histories without a log.
func TestAnswersAlone(t *testing.T) {
	a, b := sentOf("a", "k:1", ""), sentOf("b", "j,k:1", "")
	first, second := sentOf("a", "", "s"), sentOf("b", "", "s")
	for name, c := range map[string]struct {
		checker string
		h       *history.History
		broken  bool
	}{
		"two under a limit of one": {"Limited", answers(limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), true},
		"both of one claim":        {"Limited", answers(limitOf("k:*", 1), a, b, claimOf("a", "b")), true},
		"a heartbeat shows that it runs": {
			"Limited", answers(limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Heartbeat, "a")), true,
		},
		"the rule of the key itself": {
			"Limited", answers(limitOf("k:*", 9), limitOf("k:1", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), true,
		},
		"the rule was lowered before": {
			"Limited", answers(limitOf("k:*", 2), limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), true,
		},
		"two under a limit of two":       {"Limited", answers(limitOf("k:*", 2), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), false},
		"one after another":              {"Limited", answers(limitOf("k:*", 1), a, b, claimOf("a"), reportOf(history.Complete, "a"), claimOf("b")), false},
		"the lease of the first ended":   {"Limited", answers(limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b")), false},
		"the rule is lowered later":      {"Limited", answers(limitOf("k:*", 2), a, b, claimOf("a"), claimOf("b"), limitOf("k:*", 1), reportOf(history.Complete, "a")), false},
		"the rule was taken away":        {"Limited", answers(limitOf("k:*", 1), limitOf("k:*", 0), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), false},
		"a rule whose answer was lost":   {"Limited", answers(limitOf("k:*", 1), outcomeOf(limitOf("k:1", 2), history.Unknown), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), false},
		"an end whose answer was lost":   {"Limited", answers(limitOf("k:*", 1), a, b, claimOf("a"), outcomeOf(reportOf(history.Complete, "a"), history.Unknown), claimOf("b"), reportOf(history.Complete, "a")), false},
		"the limits were edited":         {"Limited", answers(limitOf("k:*", 1), a, b, history.Op{Kind: history.Edit, Job: "b", Limits: "j"}, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), false},
		"before a loss":                  {"Limited", lossAt(60, answers(limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a"))), true},
		"the claim was lost":             {"Limited", lossAt(35, answers(limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a"))), false},
		"the rule was lost":              {"Limited", lossAt(5, answers(limitOf("k:*", 1), a, b, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a"))), false},
		"two of a sequence run":          {"Sequential", answers(first, second, claimOf("a"), claimOf("b"), reportOf(history.Heartbeat, "a")), true},
		"the second starts first":        {"Sequential", answers(first, second, claimOf("b"), claimOf("a")), true},
		"in order":                       {"Sequential", answers(first, second, claimOf("a"), reportOf(history.Heartbeat, "a"), reportOf(history.Complete, "a"), claimOf("b")), false},
		"the first was reported late":    {"Sequential", answers(first, second, claimOf("a"), claimOf("b"), reportOf(history.Complete, "a")), false},
		"sent at the same time":          {"Sequential", answers(first, history.Op{Kind: history.Enqueue, Job: "b", Sequence: "s", Return: 1}, claimOf("b"), claimOf("a")), false},
		"the enqueue of the first fails": {"Sequential", answers(outcomeOf(first, history.Unknown), second, claimOf("b"), claimOf("a")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if v := verdictOf(c.h, c.checker); (v.Result == model.Violated) != c.broken || v.Checked == 0 {
				t.Errorf("%s, %d checked: %v", v.Result, v.Checked, v.Violations)
			}
		})
	}
}

// TestEndedAttemptsDoNotCount has logs in which a job starts under a limit of one, and then another.
func TestEndedAttemptsDoNotCount(t *testing.T) {
	item := func(job, status string) history.Item {
		return history.Item{Job: job, Status: status, Limits: "k", Token: tokenOf(job), Attempts: 1}
	}
	start := func(now int64, job string) history.Applied {
		return history.Applied{Kind: history.Claim, Now: now, Jobs: []history.Item{item(job, "in_progress")}}
	}
	set := func(r history.Rule) history.Applied {
		return history.Applied{Kind: history.SetLimit, Limit: "k", Rule: &r}
	}
	end := func(kind history.Kind, status string) history.Applied {
		return history.Applied{Kind: kind, Now: 2, Jobs: []history.Item{item("a", status)}}
	}
	held := func(worker string, until int64) history.Applied {
		return history.Applied{Kind: history.Throttle, Worker: worker, Limit: "k", Until: until}
	}
	one, slow := history.Rule{Running: 1}, history.Rule{RateMilli: 1000, Burst: 2}
	for name, c := range map[string]struct {
		log    []history.Applied
		broken bool
	}{
		"nothing ended":              {[]history.Applied{set(one), start(1, "a"), start(2, "b")}, true},
		"a heartbeat is no end":      {[]history.Applied{set(one), start(1, "a"), end(history.Heartbeat, "in_progress"), start(2, "b")}, true},
		"the cluster ended a lease":  {[]history.Applied{set(one), start(1, "a"), end(history.Passed, "unclaimed"), start(2, "b")}, false},
		"completed":                  {[]history.Applied{set(one), start(1, "a"), end(history.Complete, "completed"), start(2, "b")}, false},
		"the rule is set later":      {[]history.Applied{start(1, "a"), start(2, "b"), set(one)}, false},
		"the rule is raised":         {[]history.Applied{set(one), start(1, "a"), set(history.Rule{Running: 2}), start(2, "b")}, false},
		"runs in the snapshot":       {[]history.Applied{{Kind: history.Snapshot, Jobs: []history.Item{item("a", "in_progress")}, Limits: []history.LimitState{{Name: "k", Rule: &one}}}, start(2, "b")}, true},
		"the third within a second":  {[]history.Applied{set(slow), start(1, "a"), start(2, "b"), start(1000, "c")}, true},
		"the third after a second":   {[]history.Applied{set(slow), start(1, "a"), start(2, "b"), start(1001, "c")}, false},
		"another rate":               {[]history.Applied{set(slow), start(1, "a"), start(2, "b"), set(history.Rule{RateMilli: 1000, Burst: 1}), start(3, "c")}, false},
		"the same rate":              {[]history.Applied{set(slow), start(1, "a"), start(2, "b"), set(slow), start(3, "c")}, true},
		"a held key":                 {[]history.Applied{held("w", 5), start(4, "a")}, true},
		"no longer held":             {[]history.Applied{held("w", 5), start(5, "a")}, false},
		"a shorter hold of a worker": {[]history.Applied{held("w", 5), held("v", 3), start(4, "a")}, true},
		"a hold that is ended":       {[]history.Applied{held("w", 5), held("", 0), start(4, "a")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := new(history.History)
			for i, l := range c.log {
				l.Node, l.Code, l.LSN = "n1", "ok", lsnOf(uint64(i+1))
				h.Applied = append(h.Applied, l)
			}
			if v := verdictOf(h, "Limited"); (v.Result == model.Violated) != c.broken || v.Checked == 0 {
				t.Errorf("%s, %d checked: %v", v.Result, v.Checked, v.Violations)
			}
		})
	}
}
