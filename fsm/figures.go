package fsm

import "osqueue/fsm/figures"

// Figures has the figures of one type, with its Counters. A *Figures from a View is immutable.
type (
	Figures  = figures.Record
	Counters = figures.Counters
)

// Bounds and names of figures, as package figures has them.
const (
	FiguresMax    = figures.Max
	FigureNameMax = figures.NameMax
	FigureOther   = figures.Other
)

// Figures calls fn for the figures of all types, in the order of their names and the shared
// ones last, until fn returns false.
func (v *View) Figures(fn func(*Figures) bool) { v.figures.Scan(fn) }

// FiguresOf returns the figures of a type, or nil if it has none of its own.
func (v *View) FiguresOf(jobType string) *Figures { return v.figures.Find(&Figures{Type: jobType}) }

// MeanRun returns the mean duration, in ms, of all attempts of a type that ended, however they did; ok is false before
// the first one. Types without figures of their own have those of all others together.
func (v *View) MeanRun(jobType string) (ms float64, ok bool) {
	f := v.FiguresOf(jobType)
	if f == nil {
		f = v.figures.Find(&Figures{Shared: true})
	}
	if f == nil || f.Run.Count() == 0 {
		return 0, false
	}
	return float64(f.Run.Sum) / float64(f.Run.Count()), true
}

// Minutes returns the figures of the last n minutes of a type, the present one last, and the
// time in ms at which the first one begins. If all is set, the figures are those of all types
// together. They are zero for a type without figures of its own.
func (v *View) Minutes(jobType string, all bool, n int) (out []figures.Minute, from int64) {
	n = min(max(n, 1), figures.HistoryMinutes)
	first := max(v.meta.NowMs/figures.MinuteMs-int64(n)+1, 0)
	out = make([]figures.Minute, n)
	if f := v.FiguresOf(jobType); !all && f != nil {
		f.History.AddTo(out, first)
	}
	if all {
		v.Figures(func(f *Figures) bool { f.History.AddTo(out, first); return true })
	}
	return out, first * figures.MinuteMs
}

// oldestSeen is the number of available jobs of a type among which OldestAvailable looks for
// the one that has waited longest. The first in FIFO order is not always that one: a job that
// failed keeps its place and begins to wait again.
const oldestSeen = 8

// OldestAvailable returns the time, in ms, since which the oldest available job of a type has
// waited; ok is false if there is none.
func (v *View) OldestAvailable(jobType string) (since int64, ok bool) {
	n := 0
	v.List(Index{Type: &jobType}, []Status{Unclaimed}, 0, func(j *Job) bool {
		if at := figures.AvailableSince(j); !ok || at < since {
			since, ok = at, true
		}
		n++
		return n < oldestSeen
	})
	return since, ok
}
