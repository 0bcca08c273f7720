package model_test

import (
	"slices"
	"strings"

	"osqueue/tests/history"
)

// startWhere returns the index of the line in which a claim starts a job for which cond is true, and the job's place in it.
func startWhere(h *history.History, cond func(l *history.Applied, it *history.Item) bool) (line, at int, ok bool) {
	for i := range h.Applied {
		l := &h.Applied[i]
		for j := range l.Jobs {
			if l.Kind == history.Claim && l.Code == "ok" && cond(l, &l.Jobs[j]) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// hasKey reports whether the limits have the key.
func hasKey(limits, key string) bool { return slices.Contains(strings.Split(limits, ","), key) }

// setAt puts a line before the i-th, at the same place of the log.
func setAt(h *history.History, i int, l history.Applied) {
	l.Node, l.LSN, l.Now, l.Code = h.Applied[i].Node, h.Applied[i].LSN, h.Applied[i].Now, "ok"
	h.Applied = slices.Insert(h.Applied, i, l)
}

// secondStart is the line of the second start under a key.
func secondStart(h *history.History, key string) (line int, ok bool) {
	first := true
	line, _, ok = startWhere(h, func(_ *history.Applied, it *history.Item) bool {
		if !hasKey(it.Limits, key) || first {
			first = first && !hasKey(it.Limits, key)
			return false
		}
		return true
	})
	return line, ok
}

var liesOfLimits = []lie{
	{"a job starts beyond the limit in the log", "Limited", func(h *history.History) bool {
		line, at, ok := startWhere(h, func(_ *history.Applied, it *history.Item) bool { return it.Limits == "c:1" })
		if !ok {
			return false
		}
		second := h.Applied[line]
		it := second.Jobs[at]
		it.Job, it.Token = "another", it.Token+1<<40
		second.Jobs = []history.Item{it}
		h.Applied = slices.Insert(h.Applied, line+1, second)
		setAt(h, line, history.Applied{Kind: history.SetLimit, Limit: "c:1", Rule: &history.Rule{Running: 1}})
		return true
	}},
	{"a rule of the pattern is exceeded", "Limited", func(h *history.History) bool {
		line, ok := secondStart(h, "c:2")
		if !ok {
			return false
		}
		h.Applied = slices.DeleteFunc(h.Applied[:line+1], func(l history.Applied) bool {
			return l.Kind == history.SetLimit || l.Kind != history.Claim && slices.ContainsFunc(l.Jobs, func(it history.Item) bool { return hasKey(it.Limits, "c:2") && it.Status != "in_progress" })
		})
		setAt(h, 0, history.Applied{Kind: history.SetLimit, Limit: "c:*", Rule: &history.Rule{Running: 1}})
		return true
	}},
	{"more start than the rate lets", "Limited", func(h *history.History) bool {
		line, ok := secondStart(h, "c:1")
		if !ok {
			return false
		}
		if h.Applied[line].Now-h.Applied[0].Now > 900_000 { // a clock went ahead
			return false
		}
		h.Applied = slices.DeleteFunc(h.Applied[:line+1], func(l history.Applied) bool { return l.Kind == history.SetLimit })
		setAt(h, 0, history.Applied{Kind: history.SetLimit, Limit: "c:*", Rule: &history.Rule{RateMilli: 1, Burst: 1}})
		return true
	}},
	{"a job starts under a held key", "Limited", func(h *history.History) bool {
		line, _, ok := startWhere(h, func(_ *history.Applied, it *history.Item) bool { return hasKey(it.Limits, "all") })
		if ok {
			setAt(h, line, history.Applied{Kind: history.Throttle, Worker: "w", Limit: "all", Until: h.Applied[line].Now + 1})
		}
		return ok
	}},
	{"a job starts without its limits", "Limited", func(h *history.History) bool {
		line, at, ok := startWhere(h, func(_ *history.Applied, it *history.Item) bool {
			return it.Limits != "" && !slices.ContainsFunc(h.Ops, func(op history.Op) bool { return op.Job == it.Job && op.Kind == history.Edit })
		})
		if ok {
			h.Applied[line].Jobs = slices.Clone(h.Applied[line].Jobs)
			h.Applied[line].Jobs[at].Limits = ""
		}
		return ok
	}},
}

var liesOfSequences = []lie{
	{"a job of a sequence overtakes in the log", "Sequential", func(h *history.History) bool {
		// Where a job ends and the next one starts, the end is not there.
		for i, l := range h.Applied {
			if l.Kind != history.Complete || l.Code != "ok" || l.Jobs[0].Sequence == "" {
				continue
			}
			for _, next := range h.Applied[i:] {
				for _, it := range next.Jobs {
					if next.Kind == history.Claim && it.Sequence == l.Jobs[0].Sequence {
						h.Applied = slices.Delete(h.Applied, i, i+1)
						return true
					}
				}
			}
		}
		return false
	}},
	{"a job of a sequence overtakes between two attempts", "Sequential", func(h *history.History) bool {
		for i, l := range h.Applied {
			if (l.Kind != history.Fail && l.Kind != history.Release) || l.Code != "ok" || l.Jobs[0].Sequence == "" || l.Jobs[0].Status == "dead" || l.Jobs[0].Status == "cancelled" {
				continue
			}
			in, out := l, l
			it := l.Jobs[0]
			it.Job, it.Status = "another", "unclaimed"
			in.Kind, in.Jobs = history.Enqueue, []history.Item{it}
			it.Status = "in_progress"
			out.Kind, out.Jobs = history.Claim, []history.Item{it}
			h.Applied = slices.Insert(h.Applied, i+1, in, out)
			return true
		}
		return false
	}},
}

// editSeen is an acknowledged edit, and the claim that sees it first.
func editSeen(h *history.History) (edit, claim *history.Op, at int) {
	for i := range h.Ops {
		e := &h.Ops[i]
		if e.Kind != history.Edit || e.Outcome != history.OK {
			continue
		}
		for j := range h.Ops {
			c := &h.Ops[j]
			at := slices.IndexFunc(c.Jobs, func(o history.Held) bool { return o.Job == e.Job && o.Payload == e.Payload })
			if at >= 0 && e.Return < c.Call {
				c.Jobs = slices.Clone(c.Jobs)
				return e, c, at
			}
		}
	}
	return nil, nil, 0
}

// showsOld makes a claim show the payload of the enqueue in place of that of an edit.
func showsOld(h *history.History) bool {
	e, c, at := editSeen(h)
	if e == nil {
		return false
	}
	enqueue := opWhere(h, func(op *history.Op) bool { return op.Kind == history.Enqueue && op.Job == e.Job })
	c.Jobs[at].Payload = enqueue.Payload
	return enqueue.Outcome == history.OK && enqueue.Return < e.Call
}

// otherRevision makes an edit that was accepted one for another revision.
func otherRevision(h *history.History) bool {
	e, _, _ := editSeen(h)
	if e == nil {
		return false
	}
	e.IfRevision = new(uint64(7))
	return true
}

var liesOfEdits = []lie{
	{"an attempt has the payload before the edit", "Edited", showsOld},
	{"an attempt has the payload before the edit, as a register", "Linearizable", showsOld},
	{"an attempt has the payload of a refused edit", "Edited", func(h *history.History) bool {
		e, _, _ := editSeen(h)
		if e == nil {
			return false
		}
		e.Outcome, e.Tag, e.IfRevision = history.Refused, "revised", new(uint64)
		return true
	}},
	{"an attempt has a payload that nobody gave", "Edited", func(h *history.History) bool {
		e, c, at := editSeen(h)
		if e != nil {
			c.Jobs[at].Payload = `"other"`
		}
		return e != nil
	}},
	{"an edit of another revision is accepted", "Edited", otherRevision},
	{"an edit of another revision is accepted, as a register", "Linearizable", otherRevision},
	{"a snoozed job starts too early", "Snoozed", func(h *history.History) bool {
		line, ok := afterSnooze(h)
		if ok {
			h.Applied[line].Now -= 60_000
		}
		return ok
	}},
	{"the attempt of a snoozed job counts", "Snoozed", func(h *history.History) bool {
		line, ok := afterSnooze(h)
		if ok {
			h.Applied[line].Jobs = slices.Clone(h.Applied[line].Jobs)
			for i := range h.Applied[line].Jobs {
				h.Applied[line].Jobs[i].Attempts++
			}
		}
		return ok
	}},
}

// afterSnooze is the line in which a job starts that was released for a time, and that nobody has edited.
func afterSnooze(h *history.History) (line int, ok bool) {
	line, _, ok = startWhere(h, func(l *history.Applied, it *history.Item) bool {
		return slices.ContainsFunc(h.Applied, func(r history.Applied) bool {
			return r.Kind == history.Release && r.Code == "ok" && r.LSN.Compare(l.LSN.LSN) < 0 && r.Jobs[0].Job == it.Job && r.Jobs[0].Status == "scheduled" &&
				r.Jobs[0].Token < it.Token && it.Attempts == r.Jobs[0].Attempts+1
		}) && !slices.ContainsFunc(h.Ops, func(op history.Op) bool { return op.Job == it.Job && op.Kind == history.Edit })
	})
	return line, ok
}

// laterClaim is a claim of the job of a step or signal that begins after that was acknowledged, and the place of the job in it.
func laterClaim(h *history.History, kind history.Kind) (claim *history.Op, at int) {
	for _, op := range h.Ops {
		if op.Kind != kind || op.Outcome != history.OK {
			continue
		}
		for i := range h.Ops {
			c := &h.Ops[i]
			at := slices.IndexFunc(c.Jobs, func(held history.Held) bool { return held.Job == op.Job })
			if at >= 0 && c.Outcome == history.OK && c.Call > op.Return {
				c.Jobs = slices.Clone(c.Jobs)
				return c, at
			}
		}
	}
	return nil, 0
}

// opened adds an artefact and a read of it to a history.
func opened(h *history.History, given, read history.Outcome, value string) bool {
	end := h.Ops[len(h.Ops)-1].Return
	for i := range h.Ops {
		end = max(end, h.Ops[i].Return)
	}
	id := maxID(h)
	h.Ops = append(h.Ops,
		history.Op{ID: id + 1, Client: "w", Kind: history.Attach, Outcome: given, Committed: "object", Job: "j", Name: "n", Value: "v", Call: end + 1, Return: end + 2},
		history.Op{ID: id + 2, Client: "r", Kind: history.Open, Outcome: read, Tag: "not_found", Job: "j", Name: "n", Value: value, Call: end + 3, Return: end + 4})
	return true
}

var liesOfMemory = []lie{
	{"an artefact is gone", "Readable", func(h *history.History) bool { return opened(h, history.OK, history.Refused, "") }},
	{"an artefact has other bytes", "Readable", func(h *history.History) bool { return opened(h, history.OK, history.OK, "other") }},
	{"a refused artefact can be read", "Readable", func(h *history.History) bool { return opened(h, history.Refused, history.OK, "v") }},
	{"an attempt lacks a step", "Remembered", func(h *history.History) bool {
		c, at := laterClaim(h, history.Step)
		if c != nil {
			c.Jobs[at].Steps = nil
		}
		return c != nil
	}},
	{"an attempt has a step with another value", "Remembered", func(h *history.History) bool {
		c, at := laterClaim(h, history.Step)
		if c != nil {
			c.Jobs[at].Steps = map[string]string{"s": "7"}
		}
		return c != nil
	}},
	{"an attempt lacks a signal", "Remembered", func(h *history.History) bool {
		c, at := laterClaim(h, history.Signal)
		if c != nil {
			c.Jobs[at].Signals = nil
		}
		return c != nil
	}},
	{"an attempt has a signal twice", "Remembered", func(h *history.History) bool {
		c, at := laterClaim(h, history.Signal)
		if c != nil {
			c.Jobs[at].Signals = append(slices.Clone(c.Jobs[at].Signals), c.Jobs[at].Signals[0])
		}
		return c != nil
	}},
	{"an attempt has a signal that nobody sent", "Remembered", func(h *history.History) bool {
		c, at := laterClaim(h, history.Signal)
		if c != nil {
			c.Jobs[at].Signals = append(slices.Clone(c.Jobs[at].Signals), `"invented"`)
		}
		return c != nil
	}},
}
