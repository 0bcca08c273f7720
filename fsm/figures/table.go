package figures

import (
	"errors"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// The figures of the state count what happened to the jobs of each type, for metrics and
// charts. DESIGN.md, section 19, has the rules. They are part of the state, so that they
// survive every failover, and they decide nothing.
//
// A change of a job costs one lookup in its type and a few additions. A View shares the
// records with the machine: after a View, the machine copies a record before it writes to it
// again (Table.own).

const (
	// Max is the largest number of types with figures of their own. All other types
	// share one more record.
	Max = 100
	// NameMax is the length, in bytes, above which a type has no figures of its own.
	NameMax = 200
	// Other is the name of the shared record in metrics. A type of that name uses it.
	Other = "other"
)

// Counters count the changes of the jobs of one type.
type Counters struct {
	Enqueued   uint64
	Claimed    uint64 // attempts begun
	Completed  uint64
	Failed     uint64 // attempts that failed, lost their lease or timed out
	Retried    uint64 // jobs that became available or scheduled again after a failure or by a request
	Dead       uint64
	Cancelled  uint64 // or expired
	LeasesLost uint64 // attempts whose lease expired or whose worker was declared dead
	// DeadRemoved are the dead jobs that retention removed.
	DeadRemoved uint64
}

// Record has the figures of one type. A *Record from a View is immutable.
type Record struct {
	Type   string
	Shared bool // it is the record of all types without one of their own; Type is ""
	Counters
	Wait     Histogram // ms that jobs were available before they were claimed, by WaitBounds
	Run      Histogram // ms that attempts took, however they ended, by WaitBounds
	Attempts Histogram // of jobs that ended, by AttemptBounds
	History  History

	gen uint64 // the machine may write to it while this is the machine's; derived
}

func byType(a, b *Record) bool {
	if a.Shared != b.Shared {
		return b.Shared
	}
	return a.Type < b.Type
}

// Table has the figures of the types.
type Table struct {
	*btree.Tree[*Record]        // by type, the shared ones last; the records are written in place
	gen                  uint64 // of the records that no View has
	Most                 int    // types with figures of their own; Max except in tests
}

func NewTable() Table {
	return Table{Tree: btree.New(byType), gen: 1, Most: Max}
}

// own returns the record of a type as one that no View has.
func (x *Table) own(jobType string) *Record {
	key := &Record{Type: jobType}
	f, found := x.Get(key)
	if !found && x.shares(jobType) {
		key = &Record{Shared: true}
		f, found = x.Get(key)
	}
	switch {
	case !found:
		f = &Record{Type: strings.Clone(key.Type), Shared: key.Shared}
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
func (x *Table) shares(jobType string) bool {
	own := x.Len()
	if last, ok := x.Max(); ok && last.Shared {
		own--
	}
	return own >= x.Most || jobType == Other || len(jobType) > NameMax || !utf8.ValidString(jobType)
}

// CountsChange reports whether a change of a job's status changes a figure; from is 0 for a new job. A job that
// has not begun an attempt and becomes available or scheduled changes none.
func CountsChange(from, to job.Status) bool {
	return from == 0 || from == job.InProgress || from.Ended() || to == job.InProgress || to.Ended()
}

// Of returns the record of a type as one that no View has. last is what it has returned for the type before, or nil.
func (x *Table) Of(last *Record, jobType string) *Record {
	if last == nil || last.gen != x.gen {
		return x.own(jobType)
	}
	return last
}

// Count counts the change of a job's status in the record of its type, and returns the record. last is the one that the
// previous call returned for the type, or nil.
func (x *Table) Count(last *Record, from job.Status, j *job.Job, now int64) *Record {
	f := x.Of(last, j.Type)
	minute := f.History.At(now)
	switch {
	case from == 0:
		f.Enqueued++
		minute.Enqueued++
	case from == job.InProgress:
		f.endAttempt(j, minute, now)
	case from.Ended() && !j.Status.Ended():
		f.Retried++
		minute.Retried++
	}
	switch j.Status {
	case job.InProgress:
		f.Claimed++
		minute.Claimed++
		f.Wait.Observe(WaitBounds, job.Elapsed(AvailableSince(j), now))
	case job.Completed:
		f.Completed++
		minute.Completed++
	case job.Dead:
		f.Dead++
		minute.Dead++
	case job.Cancelled, job.Expired:
		f.Cancelled++
	}
	if j.Status.Ended() {
		f.Attempts.Observe(AttemptBounds, int64(j.Attempts))
	}
	return f
}

// endAttempt counts the end of an attempt.
func (f *Record) endAttempt(j *job.Job, minute *Minute, now int64) {
	f.Run.Observe(WaitBounds, job.Elapsed(j.Execution().ClaimedAt, now))
	switch j.AttemptEnd {
	case job.EndLease:
		f.LeasesLost++
	case job.EndFail, job.EndTimeout:
	case job.NoEnd, job.EndOK, job.EndReleased, job.EndSuspended:
		return
	}
	f.Failed++
	minute.Failed++
	if !j.Status.Ended() {
		f.Retried++
		minute.Retried++
	}
}

// AvailableSince returns the time, in ms, from which an available job, or one just claimed,
// has waited: its creation, the time at which it fell due, or the end of its last failed
// attempt. For a job that waited for other jobs, was released by its worker or was retried
// by a request, the wait includes the time before.
func AvailableSince(j *job.Job) int64 {
	since := max(j.CreatedAt, j.RunAt)
	if past := j.Details().History; len(past) > 0 {
		since = max(since, past[len(past)-1].EndedAt)
	}
	return since
}

// hourMs is the time between two reviews of the
const hourMs = 3_600_000

// Review drops minutes that are too old, once an hour of the machine's clock, which moves from was to now. If all
// places are taken, it also drops the types without jobs to which nothing happened for a day:
// newer types get their places.
func (x *Table) Review(hasJobs func(jobType string) bool, was, now int64) {
	if x.Len() == 0 || was/hourMs == now/hourMs {
		return
	}
	full := x.Len() >= x.Most
	x.gen++ // no type keeps a record that is dropped
	for f := range x.Copy().Scan {
		if !f.History.Stale(now) {
			continue
		}
		own := new(*f)
		own.gen = x.gen
		own.History.Trim(now)
		if full && !f.Shared && own.History.Empty() && !hasJobs(f.Type) {
			x.Delete(f)
		} else {
			x.Set(own)
		}
	}
}

// Pack returns the record as a snapshot has it.
func Pack(f *Record) *fsmpb.Figures {
	return &fsmpb.Figures{
		Type: f.Type, Shared: f.Shared,
		Enqueued: f.Enqueued, Claimed: f.Claimed, Completed: f.Completed, Failed: f.Failed, Retried: f.Retried, Dead: f.Dead,
		Cancelled: f.Cancelled, LeasesLost: f.LeasesLost, DeadRemoved: f.DeadRemoved,
		Wait: []byte(f.Wait.Pack()), Run: []byte(f.Run.Pack()), Attempts: []byte(f.Attempts.Pack()), History: []byte(f.History.Pack()),
	}
}

// Unpack is the opposite of Pack.
func Unpack(p *fsmpb.Figures) (*Record, error) {
	f := Record{Type: p.Type, Shared: p.Shared, Counters: Counters{
		Enqueued: p.Enqueued, Claimed: p.Claimed, Completed: p.Completed, Failed: p.Failed, Retried: p.Retried, Dead: p.Dead,
		Cancelled: p.Cancelled, LeasesLost: p.LeasesLost, DeadRemoved: p.DeadRemoved,
	}}
	var errs [4]error
	f.Wait, errs[0] = UnpackHistogram(string(p.Wait))
	f.Run, errs[1] = UnpackHistogram(string(p.Run))
	f.Attempts, errs[2] = UnpackHistogram(string(p.Attempts))
	f.History, errs[3] = UnpackHistory(string(p.History))
	return &f, errors.Join(errs[:]...)
}

// Freeze lets a copy of the table have the present records: later changes go to copies of them.
func (x *Table) Freeze() { x.gen++ }

// Add adds a copy of a record.
func (x *Table) Add(f *Record) {
	own := new(*f)
	own.Type, own.gen = strings.Clone(f.Type), x.gen
	x.Set(own)
}
