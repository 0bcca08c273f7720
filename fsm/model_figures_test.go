package fsm_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/figures"
)

// counted is one change of a job that its type's figures count. The model keeps all of them
// and counts when it is asked.
type counted struct {
	jobType  string
	from, to fsm.Status
	end      fsm.End
	at       int64
	waited   int64 // at a claim
	ran      int64 // at the end of an attempt
	attempts int32
	removed  bool // a dead job by retention: nothing else counts
}

// noteChange keeps a change for the figures.
func (m *model) noteChange(old, j *fsm.Job) {
	if j == nil || old != nil && old.Status == j.Status {
		return
	}
	c := counted{jobType: j.Type, to: j.Status, end: j.AttemptEnd, at: m.meta.NowMs, attempts: j.Attempts}
	if old != nil {
		c.from = old.Status
	}
	if c.to == fsm.InProgress {
		began := max(j.CreatedAt, j.RunAt)
		for _, a := range j.Details().History {
			began = max(began, a.EndedAt)
		}
		c.waited = max(since(m.meta.NowMs, began), 0)
	}
	if c.from == fsm.InProgress {
		c.ran = max(since(m.meta.NowMs, j.Execution().ClaimedAt), 0)
	}
	waits := func(s fsm.Status) bool { return s == fsm.Blocked || s == fsm.Scheduled || s == fsm.Unclaimed }
	if !waits(c.from) || !waits(c.to) {
		m.counted = append(m.counted, c)
	}
}

// checkFigures counts all changes again.
func checkFigures(t *rapid.T, v *fsm.View, naive *model) {
	want := map[string]*fsm.Counters{}
	minutes := map[string]map[int64]figures.Minute{}
	sums := map[string][6]uint64{} // of waits, runs and attempts, and their numbers
	for _, c := range naive.counted {
		if want[c.jobType] == nil {
			want[c.jobType], minutes[c.jobType] = new(fsm.Counters), map[int64]figures.Minute{}
		}
		minute, s := minutes[c.jobType][c.at/60_000], sums[c.jobType]
		c.count(want[c.jobType], &minute)
		minutes[c.jobType][c.at/60_000] = minute
		for i, of := range []struct {
			is bool
			v  uint64
		}{{c.to == fsm.InProgress, uint64(c.waited)}, {c.from == fsm.InProgress, uint64(c.ran)}, {hasEnded(c.to), uint64(c.attempts)}} {
			if of.is {
				s[i], s[i+3] = s[i]+of.v, s[i+3]+1
			}
		}
		sums[c.jobType] = s
	}
	names := slices.Sorted(maps.Keys(want))
	figures := collected(v.Figures)
	if len(figures) != len(names) {
		t.Fatalf("figures of %d types, want those of %q", len(figures), names)
	}
	for i, f := range figures {
		got := [6]uint64{f.Wait.Sum, f.Run.Sum, f.Attempts.Sum, f.Wait.Count(), f.Run.Count(), f.Attempts.Count()}
		if f.Type != names[i] || f.Counters != *want[f.Type] || got != sums[f.Type] {
			t.Fatalf("figures of %q\n got %+v sums %v\nwant %+v sums %v", f.Type, f.Counters, got, *want[names[i]], sums[names[i]])
		}
		checkMinutes(t, f, minutes[f.Type], naive.meta.NowMs/60_000)
	}
}

func (c *counted) count(n *fsm.Counters, m *figures.Minute) {
	failed := c.end == fsm.EndFail || c.end == fsm.EndLease || c.end == fsm.EndTimeout
	add := func(is bool, total *uint64, minute *uint32) {
		if is {
			*total++
			*minute++
		}
	}
	if c.removed {
		n.DeadRemoved++
		return
	}
	var none uint32
	add(c.from == 0, &n.Enqueued, &m.Enqueued)
	add(c.to == fsm.InProgress, &n.Claimed, &m.Claimed)
	add(c.to == fsm.Completed, &n.Completed, &m.Completed)
	add(c.to == fsm.Dead, &n.Dead, &m.Dead)
	add(c.to == fsm.Cancelled || c.to == fsm.Expired, &n.Cancelled, &none)
	add(c.from == fsm.InProgress && failed, &n.Failed, &m.Failed)
	add(c.from == fsm.InProgress && c.end == fsm.EndLease, &n.LeasesLost, &none)
	again := hasEnded(c.from) || c.from == fsm.InProgress && failed
	add(again && !hasEnded(c.to), &n.Retried, &m.Retried)
}

// checkMinutes compares the minutes of the last day. The newest ones stand at the end.
func checkMinutes(t *rapid.T, f *fsm.Figures, want map[int64]figures.Minute, now int64) {
	from := max(now-figures.HistoryMinutes+1, 0)
	got := make([]figures.Minute, now-from+1)
	f.History.AddTo(got, from)
	for i, m := range got {
		if m != want[from+int64(i)] {
			t.Fatalf("type %q, minute %d: %+v, want %+v", f.Type, from+int64(i), m, want[from+int64(i)])
		}
	}
}
