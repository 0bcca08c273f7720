package notify

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
)

// ProgressPoint is one report of progress.
type ProgressPoint struct {
	Attempt int32
	Percent uint8
	At      int64 // machine's time, ms
	Message string
}

// Action is a change of a job that a request made, other than by its worker.
type Action struct {
	At     int64 // machine's time, ms
	Kind   fsm.EventKind
	From   fsm.Status
	Status fsm.Status
	Actor  string // as in fsm.Event; "" if the request had no identity
}

// Bounds of a JobHistory.
const (
	// actionsKept bounds the actions of a job; the oldest are dropped.
	actionsKept = 8
	// progressPoints bounds the points of one attempt: if there are more, every second one is
	// dropped, so that those that are left cover the whole attempt.
	progressPoints = 32
	// progressAttempts bounds the attempts of a job.
	progressAttempts = 4
	// progressJobBytes bounds the points of one attempt, in bytes.
	progressJobBytes = 8 << 10
	// progressBytes bounds the points and actions of all jobs, in bytes. Beyond it, the points
	// and actions of the job whose last one is the oldest are dropped.
	progressBytes = 16 << 20
	// progressCost is the memory of a point in addition to its message, actionCost that of an
	// action, whose actor many share, and jobCost that of a job, in bytes.
	progressCost, actionCost, jobCost = 64, 48, 256
)

// JobHistory keeps the progress that running jobs have reported, and who cancelled and retried
// jobs, on each node, from the entries that it applies. It is no part of the state: a node that
// starts has what its log still has after the snapshot. Other jobs cost nothing. Its methods
// are safe for concurrent use.
type JobHistory struct {
	jobs atomic.Int64 // lets the write path skip the lock when there is nothing to forget

	mu    sync.RWMutex
	byID  map[string]*jobNotes
	order list.List // of *jobNotes, the one that changed least recently first
	bytes int
}

type jobNotes struct {
	id      string
	place   *list.Element
	points  []ProgressPoint
	actions []Action
	bytes   int
}

// NewJobHistory returns an empty log.
func NewJobHistory() *JobHistory { return &JobHistory{byID: make(map[string]*jobNotes)} }

// Applied adds the progress and the actions in the entry that m has applied last, and forgets the
// jobs that it removed. The caller holds the lock that guards m.
func (p *JobHistory) Applied(m *fsm.Machine) {
	events := m.Events()
	for i := range events {
		e := &events[i]
		switch {
		case e.Job == nil:
		case e.Kind == fsm.JobProgress:
			p.add(e.Job, m.Now())
		case isAction(e):
			p.act(e, m.Now())
		case e.Removed && p.jobs.Load() > 0:
			p.remove(e.Job.ID)
		}
	}
}

// Restored forgets the jobs that are not in a state that replaced the old one. The caller
// holds the lock that guards m.
func (p *JobHistory) Restored(m *fsm.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, j := range p.byID {
		if m.Job(id) == nil {
			p.removeLocked(j)
		}
	}
}

// isAction reports whether a request made the change, and not the job's worker or the machine.
func isAction(e *fsm.Event) bool {
	switch {
	case e.Removed:
		return false
	case e.Kind == fsm.JobCancelled, e.Kind == fsm.JobEdited:
		return true
	case e.Kind != fsm.JobChanged || e.From == 0 || e.From == fsm.InProgress || e.Job.Status == fsm.InProgress:
		return false
	}
	revived := (e.From == fsm.Dead || e.From == fsm.Cancelled || e.From == fsm.Expired) && e.Job.Status == fsm.Unclaimed
	return revived || e.Actor != ""
}

// Progress returns the points of a job, oldest first.
func (p *JobHistory) Progress(id string) (points []ProgressPoint) {
	p.read(id, func(j *jobNotes) { points = slices.Clone(j.points) })
	return points
}

// Actions returns the actions on a job, oldest first.
func (p *JobHistory) Actions(id string) (actions []Action) {
	p.read(id, func(j *jobNotes) { actions = slices.Clone(j.actions) })
	return actions
}

func (p *JobHistory) read(id string, fn func(*jobNotes)) {
	if p.jobs.Load() == 0 {
		return
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if j := p.byID[id]; j != nil {
		fn(j)
	}
}

func (p *JobHistory) act(e *fsm.Event, now int64) {
	a := Action{At: now, Kind: e.Kind, From: e.From, Status: e.Job.Status, Actor: e.Actor}
	p.change(e.Job.ID, func(j *jobNotes) {
		if len(j.actions) == actionsKept {
			j.actions = slices.Delete(j.actions, 0, 1)
		}
		j.actions = append(j.actions, a)
	})
}

func (p *JobHistory) add(job *fsm.Job, now int64) {
	d := job.Details()
	p.change(job.ID, func(j *jobNotes) {
		j.add(ProgressPoint{Attempt: job.Attempts, Percent: d.Progress.Percent, At: now, Message: d.Progress.Message})
	})
}

// change changes the notes of a job with fn, and drops old ones if there are too many.
func (p *JobHistory) change(id string, fn func(*jobNotes)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.byID[id]
	if j == nil {
		j = &jobNotes{id: strings.Clone(id)} // the id of a job keeps its payload
		j.place = p.order.PushBack(j)
		p.byID[j.id] = j
		p.jobs.Add(1)
		p.bytes += jobCost + len(j.id)
	}
	p.order.MoveToBack(j.place)
	p.bytes -= j.bytes
	fn(j)
	j.bytes = costOf(j.points) + actionCost*len(j.actions)
	p.bytes += j.bytes
	for p.bytes > progressBytes {
		p.removeLocked(p.order.Front().Value.(*jobNotes)) // it has nothing else
	}
}

// add adds a point. It repeats nothing: a report that differs from the last one in its time alone
// is dropped.
func (j *jobNotes) add(point ProgressPoint) {
	if n := len(j.points); n > 0 {
		last := &j.points[n-1]
		if last.Attempt == point.Attempt && last.Percent == point.Percent && last.Message == point.Message {
			return
		}
	}
	j.points = append(j.points, point)
	first := len(j.points)
	for first > 0 && j.points[first-1].Attempt == point.Attempt {
		first--
	}
	for n := len(j.points) - first; n > 1 && (n > progressPoints || costOf(j.points[first:]) > progressJobBytes); n = len(j.points) - first {
		j.thin(first)
	}
	for j.points[0].Attempt <= point.Attempt-progressAttempts {
		j.points = j.points[1:]
	}
}

// thin drops every second point from first on, and keeps the last one.
func (j *jobNotes) thin(first int) {
	kept := append([]ProgressPoint(nil), j.points[:first]...)
	for i := first; i < len(j.points); i++ {
		if (len(j.points)-1-i)%2 == 0 {
			kept = append(kept, j.points[i])
		}
	}
	j.points = kept
}

func costOf(points []ProgressPoint) (n int) {
	for i := range points {
		n += progressCost + len(points[i].Message)
	}
	return n
}

func (p *JobHistory) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.byID[id]; j != nil {
		p.removeLocked(j)
	}
}

func (p *JobHistory) removeLocked(j *jobNotes) {
	p.bytes -= j.bytes + jobCost + len(j.id)
	p.order.Remove(j.place)
	delete(p.byID, j.id)
	p.jobs.Add(-1)
}
