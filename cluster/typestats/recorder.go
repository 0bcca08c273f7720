package typestats

import (
	"strings"
	"sync"
	"unicode/utf8"

	"osqueue/fsm"
)

// Bounds of the types that have figures of their own.
const (
	TypesMax = 100
	nameMax  = 200 // bytes; longer names are unsuitable as labels
)

// Other is the name under which all types without figures of their own are counted.
const Other = "other"

// NoType is the name of the type "", as in paths of the API.
const NoType = "~"

// Counters count the changes of the jobs of one type.
type Counters struct {
	Enqueued   uint64
	Claimed    uint64
	Completed  uint64
	Failed     uint64 // attempts that failed, lost their lease or timed out
	Retried    uint64 // jobs that became available or scheduled again after a failure or by a request
	Dead       uint64
	Cancelled  uint64
	LeasesLost uint64 // attempts whose lease expired or whose worker was declared dead
}

// Recorder counts the effects of log entries. Its methods are safe for concurrent use. The
// zero value is not ready for use; see New.
type Recorder struct {
	mu     sync.Mutex // guards the fields below
	types  map[string]*counted
	other  *counted
	last   *counted // that of the last event
	lastOf string   // its type
	now    int64    // the machine's clock, ms
}

// counted has the figures of one type.
type counted struct {
	name     string // as a label
	counters Counters
	wait     Histogram // seconds
	run      Histogram // seconds
	attempts Histogram
	minutes  minutes
}

// New returns an empty recorder.
func New() *Recorder {
	return &Recorder{types: make(map[string]*counted), other: newCounted(Other)}
}

func newCounted(name string) *counted {
	return &counted{
		name: name, wait: newHistogram(secondBounds), run: newHistogram(secondBounds), attempts: newHistogram(attemptBounds),
	}
}

// Applied counts the events of the entry that m has applied last. The caller holds the lock
// that guards m.
func (t *Recorder) Applied(m *fsm.Machine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = m.Meta().Now
	events := m.Events()
	for i := range events {
		if e := &events[i]; e.Kind == fsm.JobChanged {
			t.of(e.Job.Type).count(e, t.now)
		}
	}
}

// Restored gives the types of a state that replaced the old one figures of their own, as
// far as there is room.
func (t *Recorder) Restored(m *fsm.Machine) {
	var names []string
	m.Types(func(name string, _ fsm.TypeStats) bool {
		names = append(names, name)
		return true
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = m.Meta().Now
	for _, name := range smallest(names, TypesMax) {
		t.of(name)
	}
}

// of returns the figures under which a type is counted.
func (t *Recorder) of(jobType string) *counted {
	if t.last != nil && t.lastOf == jobType {
		return t.last
	}
	c := t.types[jobType]
	switch {
	case c != nil:
	case len(t.types) >= TypesMax || !suitable(jobType):
		c = t.other
	default:
		jobType = strings.Clone(jobType)
		c = newCounted(Label(jobType))
		t.types[jobType] = c
	}
	t.last, t.lastOf = c, jobType
	return c
}

// Label returns the name of a type in metrics and paths: NoType for the type "", and one
// more ~ before a type that begins with ~.
func Label(jobType string) string {
	if jobType == "" || jobType[0] == '~' {
		return NoType + jobType
	}
	return jobType
}

// suitable reports whether a type can have figures of its own: its name is a valid label,
// and is not the one of the shared figures.
func suitable(jobType string) bool {
	return jobType != Other && len(jobType) <= nameMax && utf8.ValidString(jobType)
}

// count counts one change of a job.
func (c *counted) count(e *fsm.Event, now int64) {
	j, at := e.Job, &c.counters
	minute := c.minutes.at(now)
	switch {
	case e.From == 0:
		at.Enqueued++
		minute.Enqueued++
	case e.From == fsm.InProgress:
		c.endAttempt(e, minute, now)
	case isEnd(e.From) && !isEnd(j.Status):
		at.Retried++
		minute.Retried++
	}
	if e.From == j.Status { // only the result changed
		return
	}
	switch j.Status {
	case fsm.InProgress:
		at.Claimed++
		minute.Claimed++
		c.wait.observe(seconds(now - AvailableSince(j)))
	case fsm.Completed:
		at.Completed++
		minute.Completed++
	case fsm.Dead:
		at.Dead++
		minute.Dead++
	case fsm.Cancelled:
		at.Cancelled++
	case fsm.Scheduled, fsm.Unclaimed, fsm.Blocked:
		return
	}
	if isEnd(j.Status) {
		c.attempts.observe(float64(j.Attempts))
	}
}

// endAttempt counts the end of an attempt.
func (c *counted) endAttempt(e *fsm.Event, minute *Minute, now int64) {
	c.run.observe(seconds(now - e.Job.Execution().ClaimedAt))
	switch e.Job.AttemptEnd {
	case fsm.EndLease:
		c.counters.LeasesLost++
	case fsm.EndFail, fsm.EndTimeout:
	case fsm.NoEnd, fsm.EndOK, fsm.EndReleased:
		return
	}
	c.counters.Failed++
	minute.Failed++
	if !isEnd(e.Job.Status) {
		c.counters.Retried++
		minute.Retried++
	}
}

// AvailableSince returns the time, in ms, from which an available job, or one just claimed,
// has waited (see the package documentation).
func AvailableSince(j *fsm.Job) int64 {
	since := max(j.CreatedAt, j.RunAt)
	if past := j.Details().History; len(past) > 0 {
		since = max(since, past[len(past)-1].EndedAt)
	}
	return since
}

func isEnd(s fsm.Status) bool { return s == fsm.Completed || s == fsm.Dead || s == fsm.Cancelled }

func seconds(ms int64) float64 { return float64(max(ms, 0)) / 1000 }
