package model_test

import (
	"slices"

	"osqueue/tests/history"
)

// startInTime is the line of the first start of a job with a start-before, and the job.
func startInTime(h *history.History) (line int, it *history.Item) {
	seen := make(map[string]bool)
	line, at, ok := startWhere(h, func(_ *history.Applied, it *history.Item) bool {
		again := seen[it.Job]
		seen[it.Job] = true
		return it.Before > 0 && !again
	})
	if !ok {
		return 0, nil
	}
	h.Applied[line].Jobs = slices.Clone(h.Applied[line].Jobs)
	return line, &h.Applied[line].Jobs[at]
}

// lateFinal makes a job that was handed out end as expired.
func lateFinal(h *history.History) bool {
	for _, op := range h.Ops {
		for _, held := range op.Jobs {
			e := opWhere(h, func(o *history.Op) bool { return o.Kind == history.Enqueue && o.Job == held.Job })
			if e != nil && e.Before > 0 {
				finalOf(h, held.Job).Status = "expired"
				return true
			}
		}
	}
	return false
}

// fire is the line of the second fire of a schedule that has another one after it.
func fire(h *history.History) (line int, ok bool) {
	fires := make(map[string][]int)
	for i, l := range h.Applied {
		if l.Kind != history.Fire || l.Code != "ok" {
			continue
		}
		fires[l.Schedule] = append(fires[l.Schedule], i)
		if all := fires[l.Schedule]; len(all) == 3 {
			return all[1], true
		}
	}
	return 0, false
}

// editFire changes the second fire of a schedule.
func editFire(h *history.History, how func(l *history.Applied)) bool {
	line, ok := fire(h)
	if ok {
		how(&h.Applied[line])
	}
	return ok
}

var liesOfPlans = []lie{
	{"a job starts after its start-before", "Expired", func(h *history.History) bool {
		line, it := startInTime(h)
		if it != nil {
			it.Before = h.Applied[line].Now
		}
		return it != nil
	}},
	{"a job expires that has started", "Expired", func(h *history.History) bool {
		line, it := startInTime(h)
		if it == nil {
			return false
		}
		over := *it
		over.Status = "expired"
		l := h.Applied[line]
		l.Kind, l.Now, l.Jobs = history.Passed, over.Before, []history.Item{over}
		h.Applied = slices.Insert(h.Applied, line+1, l)
		return true
	}},
	{"a job expires early", "Expired", func(h *history.History) bool {
		line := lineWhere(h, func(l *history.Applied) bool {
			return l.Kind == history.Passed && slices.ContainsFunc(l.Jobs, func(it history.Item) bool { return it.Status == "expired" })
		})
		if line >= 0 {
			h.Applied[line].Now -= 60_000
		}
		return line >= 0
	}},
	{"an expired job was handed out", "Expired", lateFinal},
	{"an expired job was handed out, as a register", "Linearizable", lateFinal},
	{"a start-before is lost", "Expired", func(h *history.History) bool {
		line := lineWhere(h, func(l *history.Applied) bool {
			return l.Kind == history.Enqueue && l.Code == "ok" && l.Jobs[0].Before > 0
		})
		if line >= 0 {
			h.Applied[line].Jobs = slices.Clone(h.Applied[line].Jobs)
			h.Applied[line].Jobs[0].Before = 0
		}
		return line >= 0
	}},
	{"a schedule fires twice for a time", "Scheduled", func(h *history.History) bool {
		line, ok := fire(h)
		if ok {
			h.Applied = slices.Insert(h.Applied, line, h.Applied[line])
		}
		return ok
	}},
	{"a fire is lost", "Scheduled", func(h *history.History) bool {
		line, ok := fire(h)
		if ok {
			h.Applied = slices.Delete(h.Applied, line, line+1)
		}
		return ok
	}},
	{"a missed time is not counted", "Scheduled", func(h *history.History) bool { return editFire(h, func(l *history.Applied) { l.Missed++ }) }},
	{"a schedule fires early", "Scheduled", func(h *history.History) bool { return editFire(h, func(l *history.Applied) { l.Now = l.At - 1 }) }},
	{"two jobs have one time", "Scheduled", func(h *history.History) bool {
		var first *history.Final
		for i := range h.Finals {
			switch f := &h.Finals[i]; {
			case f.Schedule == "":
			case first == nil:
				first = f
			case f.Schedule == first.Schedule:
				f.At = first.At
				return true
			}
		}
		return false
	}},
	{"an older job of a type with ageing is overtaken", "Order", func(h *history.History) bool {
		last := h.Applied[len(h.Applied)-1]
		last.Code, last.Request, last.Worker = "ok", "", ""
		add := func(kind history.Kind, status string, it history.Item) {
			l := last
			it.Type, it.Status = "b", status
			l.Kind, l.Jobs = kind, []history.Item{it}
			h.Applied = append(h.Applied, l)
		}
		aged := last
		aged.Kind, aged.Jobs, aged.Aging = history.SetType, nil, map[string]int64{"b": 10}
		h.Applied = append(h.Applied, aged)
		old, young := history.Item{Job: "old", Since: 1000}, history.Item{Job: "young", Since: 1100, Priority: 5}
		add(history.Enqueue, "unclaimed", old)
		add(history.Enqueue, "unclaimed", young)
		young.Token, young.Attempts = 1<<60, 1
		add(history.Claim, "in_progress", young)
		return true
	}},
}
