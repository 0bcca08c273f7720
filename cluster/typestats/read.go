package typestats

import (
	"maps"
	"slices"
	"strings"

	"osqueue/fsm"
)

// oldestSeen is the number of available jobs of a type among which Figures looks for the
// one that has waited longest. The first in claim order is not always that one: a job that
// failed keeps its place and begins to wait again.
const oldestSeen = 8

// Figures are the figures of one type at one time.
type Figures struct {
	Name     string // Label of the type, or Other
	Jobs     fsm.Counts
	OldestMs int64 // how long the oldest available job has waited; 0 without one
	Counters
	Wait, Run, Attempts Histogram
}

// Figures returns the figures of all types in the order of their names, with those of all
// other types at the end. v is the state that this node has applied, stats returns the
// figures of its types, and now is the present time in ms.
func (t *Recorder) Figures(v *fsm.View, stats map[string]fsm.TypeStats, now int64) []Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Figures
	for _, name := range slices.Sorted(maps.Keys(t.types)) {
		f := t.types[name].figures()
		f.Jobs, f.OldestMs = stats[name].Counts, oldest(v, name, stats[name].Counts, now)
		out = append(out, f)
	}
	rest := t.other.figures()
	for name, s := range stats {
		if t.types[name] != nil {
			continue
		}
		for i, n := range s.Counts {
			rest.Jobs[i] += n
		}
		rest.OldestMs = max(rest.OldestMs, oldest(v, name, s.Counts, now))
	}
	return append(out, rest)
}

func (c *counted) figures() Figures {
	return Figures{
		Name: c.name, Counters: c.counters,
		Wait: c.wait.clone(), Run: c.run.clone(), Attempts: c.attempts.clone(),
	}
}

// oldest returns how long the oldest available job of a type has waited, in ms.
func oldest(v *fsm.View, name string, counts fsm.Counts, now int64) (age int64) {
	if counts.Of(fsm.Unclaimed) == 0 {
		return 0
	}
	n := 0
	v.JobsOfType(name, fsm.Unclaimed, 0, func(j *fsm.Job) bool {
		age = max(age, now-AvailableSince(j))
		n++
		return n < oldestSeen
	})
	return age
}

// Minutes returns the figures of the last n minutes of a type, the present one last, and
// the time in ms at which the first one begins. ok is false if the type has no figures of
// its own. If all is set, the figures are those of all types together.
func (t *Recorder) Minutes(jobType string, all bool, n int) (out []Minute, from int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(max(n, 1), MinutesKept)
	first := max(t.now/minuteMs-int64(n)+1, 0)
	out = make([]Minute, n)
	if all {
		for _, c := range t.types {
			c.minutes.addTo(out, first)
		}
		t.other.minutes.addTo(out, first)
		return out, first * minuteMs, true
	}
	c := t.types[jobType]
	if c == nil {
		return out, first * minuteMs, false
	}
	c.minutes.addTo(out, first)
	return out, first * minuteMs, true
}

// smallest returns the first n of names in order.
func smallest(names []string, n int) []string {
	slices.SortFunc(names, strings.Compare)
	return names[:min(n, len(names))]
}
