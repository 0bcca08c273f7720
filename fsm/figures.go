package fsm

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/btree"
	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
)

// The figures of the state count what happened to the jobs of each type, for metrics and
// charts. DESIGN.md, section 19, has the rules. They are part of the state, so that they
// survive every failover, and they decide nothing.
//
// A change of a job costs one lookup in its type and a few additions. A View shares the
// records with the machine: after a View, the machine copies a record before it writes to it
// again (figureTable.own).

const (
	// FiguresMax is the largest number of types with figures of their own. All other types
	// share one more record.
	FiguresMax = 100
	// FigureNameMax is the length, in bytes, above which a type has no figures of its own.
	FigureNameMax = 200
	// FigureOther is the name of the shared record in metrics. A type of that name uses it.
	FigureOther = "other"
)

// Counters count the changes of the jobs of one type.
type Counters struct {
	Enqueued   uint64
	Claimed    uint64 // attempts begun
	Completed  uint64
	Failed     uint64 // attempts that failed, lost their lease or timed out
	Retried    uint64 // jobs that became available or scheduled again after a failure or by a request
	Dead       uint64
	Cancelled  uint64
	LeasesLost uint64 // attempts whose lease expired or whose worker was declared dead
}

// Figures has the figures of one type. A *Figures from a View is immutable.
type Figures struct {
	Type   string
	Shared bool // it is the record of all types without one of their own; Type is ""
	Counters
	Wait     figures.Histogram // ms that jobs were available before they were claimed, by WaitBounds
	Run      figures.Histogram // ms that attempts took, however they ended, by WaitBounds
	Attempts figures.Histogram // of jobs that ended, by AttemptBounds
	History  figures.History

	gen uint64 // the machine may write to it while this is the machine's; derived
}

func byFigures(a, b *Figures) bool {
	if a.Shared != b.Shared {
		return b.Shared
	}
	return a.Type < b.Type
}

// figureTable has the figures of the types.
type figureTable struct {
	*btree.Tree[*Figures]        // by type, the shared ones last; the records are written in place
	gen                   uint64 // of the records that no View has
	most                  int    // types with figures of their own; FiguresMax except in tests
}

func newFigureTable() figureTable {
	return figureTable{Tree: btree.New(byFigures), gen: 1, most: FiguresMax}
}

// own returns the record of a type as one that no View has.
func (x *figureTable) own(jobType string) *Figures {
	key := &Figures{Type: jobType}
	f, found := x.Get(key)
	if !found && x.shares(jobType) {
		key = &Figures{Shared: true}
		f, found = x.Get(key)
	}
	switch {
	case !found:
		f = &Figures{Type: strings.Clone(key.Type), Shared: key.Shared}
	case f.gen == x.gen:
		return f
	default:
		f = new(*f)
	}
	f.gen = x.gen
	x.Set(f)
	return f
}

// shares reports whether a type without figures gets none of its own: there are too
// many, or its name is not a valid label.
func (x *figureTable) shares(jobType string) bool {
	own := x.Len()
	if last, ok := x.Max(); ok && last.Shared {
		own--
	}
	return own >= x.most || jobType == FigureOther || len(jobType) > FigureNameMax || !utf8.ValidString(jobType)
}

// countsChange reports whether a change of a job's status changes a figure; from is 0 for a new job. A job that
// has not begun an attempt and becomes available or scheduled changes none.
func countsChange(from, to Status) bool {
	return from == 0 || from == InProgress || from.ended() || to == InProgress || to.ended()
}

// count counts the change of a job's status.
func (x *figureTable) count(q *queue, from Status, j *Job, now int64) {
	if q.figures == nil || q.figures.gen != x.gen {
		q.figures = x.own(q.name)
	}
	f := q.figures
	minute := f.History.At(now)
	switch {
	case from == 0:
		f.Enqueued++
		minute.Enqueued++
	case from == InProgress:
		f.endAttempt(j, minute, now)
	case from.ended() && !j.Status.ended():
		f.Retried++
		minute.Retried++
	}
	switch j.Status {
	case InProgress:
		f.Claimed++
		minute.Claimed++
		f.Wait.Observe(figures.WaitBounds, elapsed(AvailableSince(j), now))
	case Completed:
		f.Completed++
		minute.Completed++
	case Dead:
		f.Dead++
		minute.Dead++
	case Cancelled:
		f.Cancelled++
	}
	if j.Status.ended() {
		f.Attempts.Observe(figures.AttemptBounds, int64(j.Attempts))
	}
}

// endAttempt counts the end of an attempt.
func (f *Figures) endAttempt(j *Job, minute *figures.Minute, now int64) {
	f.Run.Observe(figures.WaitBounds, elapsed(j.Execution().ClaimedAt, now))
	switch j.AttemptEnd {
	case EndLease:
		f.LeasesLost++
	case EndFail, EndTimeout:
	case NoEnd, EndOK, EndReleased:
		return
	}
	f.Failed++
	minute.Failed++
	if !j.Status.ended() {
		f.Retried++
		minute.Retried++
	}
}

// AvailableSince returns the time, in ms, from which an available job, or one just claimed,
// has waited: its creation, the time at which it fell due, or the end of its last failed
// attempt. For a job that waited for other jobs, was released by its worker or was retried
// by a request, the wait includes the time before.
func AvailableSince(j *Job) int64 {
	since := max(j.CreatedAt, j.RunAt)
	if past := j.Details().History; len(past) > 0 {
		since = max(since, past[len(past)-1].EndedAt)
	}
	return since
}

// hourMs is the time between two reviews of the figures.
const hourMs = 3_600_000

// review drops minutes that are too old, once an hour of the machine's clock, which moves from was to now. If all
// places are taken, it also drops the types without jobs to which nothing happened for a day:
// newer types get their places.
func (x *figureTable) review(queues map[string]*queue, was, now int64) {
	if x.Len() == 0 || was/hourMs == now/hourMs {
		return
	}
	full := x.Len() >= x.most
	x.gen++ // no type keeps a record that is dropped
	for f := range x.Copy().Scan {
		if !f.History.Stale(now) {
			continue
		}
		own := new(*f)
		own.gen = x.gen
		own.History.Trim(now)
		if q := queues[f.Type]; full && !f.Shared && own.History.Empty() && (q == nil || q.counts.empty()) {
			x.Delete(f)
		} else {
			x.Set(own)
		}
	}
}

func figuresToPB(f *Figures) *fsmpb.Figures {
	return &fsmpb.Figures{
		Type: f.Type, Shared: f.Shared,
		Enqueued: f.Enqueued, Claimed: f.Claimed, Completed: f.Completed, Failed: f.Failed, Retried: f.Retried, Dead: f.Dead,
		Cancelled: f.Cancelled, LeasesLost: f.LeasesLost,
		Wait: []byte(f.Wait.Pack()), Run: []byte(f.Run.Pack()), Attempts: []byte(f.Attempts.Pack()), History: []byte(f.History.Pack()),
	}
}

func (b *Builder) addFiguresPB(p *fsmpb.Figures) error {
	f := Figures{Type: p.Type, Shared: p.Shared, Counters: Counters{
		Enqueued: p.Enqueued, Claimed: p.Claimed, Completed: p.Completed, Failed: p.Failed, Retried: p.Retried, Dead: p.Dead,
		Cancelled: p.Cancelled, LeasesLost: p.LeasesLost,
	}}
	var errs [4]error
	f.Wait, errs[0] = figures.UnpackHistogram(string(p.Wait))
	f.Run, errs[1] = figures.UnpackHistogram(string(p.Run))
	f.Attempts, errs[2] = figures.UnpackHistogram(string(p.Attempts))
	f.History, errs[3] = figures.UnpackHistory(string(p.History))
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("%w: figures of type %q: %w", ErrState, f.Type, err)
	}
	return b.AddFigures(&f)
}

// Figures calls fn for the figures of all types, in the order of their names and the shared
// ones last, until fn returns false.
func (v *View) Figures(fn func(*Figures) bool) { v.figures.Scan(fn) }

// FiguresOf returns the figures of a type, or nil if it has none of its own.
func (v *View) FiguresOf(jobType string) *Figures { return v.figures.Find(&Figures{Type: jobType}) }

// Minutes returns the figures of the last n minutes of a type, the present one last, and the
// time in ms at which the first one begins. If all is set, the figures are those of all types
// together. They are zero for a type without figures of its own.
func (v *View) Minutes(jobType string, all bool, n int) (out []figures.Minute, from int64) {
	n = min(max(n, 1), figures.HistoryMinutes)
	first := max(v.meta.Now/figures.MinuteMs-int64(n)+1, 0)
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
		if at := AvailableSince(j); !ok || at < since {
			since, ok = at, true
		}
		n++
		return n < oldestSeen
	})
	return since, ok
}
