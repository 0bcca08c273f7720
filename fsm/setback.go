package fsm

import (
	"slices"

	"osqueue/fsm/fsmpb"
)

// setClock sets the clock back to op.ToMs, for a queue whose clock was ahead. A time that is
// not in the past changes nothing. Count of the answer is by how many ms the clock went back.
//
// Nothing of the state is in the future afterwards, except for times that were set for
// later: events after the new time count as events at that time. The times of all leases and
// workers count from it. A time that was set for later by an event after it, such as a delay
// or a retry, moves back by as much as the clock; a time that an earlier event set stays. It
// takes time in proportion to the size of the state.
func (m *Machine) setClock(op *fsmpb.SetClock) Result {
	by := m.meta.Now - op.ToMs
	if by <= 0 {
		return Result{Code: Duplicate}
	}
	earlier, err := earlierMachine(m.View(), op)
	if err != nil { // no snapshot of this state could be restored either
		return Result{Code: WrongStatus}
	}
	m.become(earlier)
	return Result{Count: uint64(by)}
}

// earlierMachine returns a machine with the state v at the time op.ToMs. It does not change v.
func earlierMachine(v *View, op *fsmpb.SetClock) (*Machine, error) {
	s := setBack{now: op.ToMs, by: v.meta.Now - op.ToMs, from: v, next: op.Next}
	meta := v.meta
	meta.Now, meta.LeasesFrom = s.now, s.now
	b := NewBuilder(meta)
	var err error
	rebuild(&err, v.jobs.Scan, s.job, b.AddJob)
	rebuild(&err, v.workers.Scan, s.worker, b.AddWorker)
	rebuild(&err, v.claims.Scan, s.claim, b.AddClaim)
	rebuild(&err, v.queues.Scan, s.queue, b.AddQueue)
	rebuild(&err, v.turns.Scan, func(t *Turn) *Turn { return t }, b.AddTurn)
	rebuild(&err, v.crons.Scan, s.cron, b.AddCron)
	rebuild(&err, v.batches.Scan, s.batch, b.AddBatch)
	rebuild(&err, v.holds.Scan, s.hold, b.AddHold)
	rebuild(&err, v.requests.Scan, s.request, b.AddRequest)
	rebuild(&err, v.tokens.Scan, s.token, b.AddToken)
	rebuild(&err, v.figures.Scan, s.figures, b.AddFigures)
	rebuild(&err, v.hooks.Scan, s.hook, b.AddHook)
	rebuild(&err, v.outbox.Scan, s.hookEvent, b.AddHookEvent)
	if err != nil {
		return nil, err
	}
	return b.Machine(), nil
}

// become makes m the machine n, in the middle of an entry.
func (m *Machine) become(n *Machine) {
	n.max, n.events, n.random = m.max, m.events, m.random
	n.budget, n.firings, n.removals, n.hookNumber = m.budget, m.firings, m.removals, m.hookNumber
	for _, q := range m.touched {
		if of := n.queues[q.name]; of != nil {
			n.arrive(of, q.arrived)
		}
	}
	*m = *n
}

// rebuild adds the changed records of a collection to another state. After an error it
// does nothing.
func rebuild[T any](err *error, walk func(func(T) bool), change func(T) T, add func(T) error) {
	if *err != nil {
		return
	}
	walk(func(t T) bool {
		*err = add(change(t))
		return *err == nil
	})
}

// setBack copies records with their times moved back.
type setBack struct {
	now, by int64
	from    *View // the state before
	next    []*fsmpb.NextTime
	lastSeq uint64 // of the jobs that were created at the new time or before
}

// past sets times after s.now to s.now.
func (s *setBack) past(times ...*int64) {
	for _, t := range times {
		*t = min(*t, s.now)
	}
}

// later returns the new value of a time that was set while the clock was ahead.
func (s *setBack) later(at int64) int64 { return max(s.now, at-s.by) }

func (s *setBack) job(old *Job) *Job {
	if old.CreatedAt <= s.now {
		s.lastSeq = max(s.lastSeq, old.Seq)
	}
	j := new(*old)
	if old.Exec != nil {
		j = old.Change()
		s.past(&j.Exec.ClaimedAt, &j.Exec.Heartbeat, &j.Exec.FinishedAt)
	}
	since := old.CreatedAt // the time at which RunAt was set
	if old.Det != nil {
		j.Det = s.details(old.Det)
		if n := len(old.Det.History); n > 0 {
			since = max(since, old.Det.History[n-1].EndedAt)
		}
	}
	if since > s.now && j.RunAt > s.now {
		j.RunAt = s.later(j.RunAt)
	}
	s.past(&j.CreatedAt)
	if s.beforeBatch(old) {
		j.CreatedAt = min(j.CreatedAt, s.now-1)
	}
	return j
}

// beforeBatch reports whether the batch of a job was removed: the job must not count in
// one that has, or gets, the same id.
func (s *setBack) beforeBatch(j *Job) bool {
	id := j.Options().Batch
	if id == "" {
		return false
	}
	b, ok := s.from.batches.Get(&JobBatch{ID: id})
	return !ok || b.CreatedAt > j.CreatedAt
}

func (s *setBack) details(old *Details) *Details {
	d := *old
	s.past(&d.ProgressAt, &d.CancelAt)
	d.History = nil
	for _, a := range old.History {
		s.past(&a.StartedAt, &a.EndedAt)
		d.History = append(d.History, a)
	}
	return &d
}

func (s *setBack) worker(old *Worker) *Worker {
	w := *old
	s.past(&w.RegisteredAt, &w.LastSeen, &w.QuietSince, &w.GoneAt)
	return &w
}

func (s *setBack) claim(old *ClaimRecord) *ClaimRecord {
	r := *old
	s.past(&r.ClaimedAt)
	return &r
}

func (s *setBack) queue(old *QueueSettings) *QueueSettings {
	q := *old
	s.past(&q.LevelAt)
	if old.Pause.Until > 0 && old.Pause.Since > s.now {
		q.Pause.Until = s.later(old.Pause.Until)
	}
	s.past(&q.Pause.Since)
	return &q
}

func (s *setBack) cron(old *Cron) *Cron {
	c := *old
	s.past(&c.CreatedAt, &c.UpdatedAt, &c.LastAt)
	if c.NextAt > s.now {
		c.NextAt = s.nextOf(old)
	}
	return &c
}

// nextOf returns a schedule's next time, as the leader computed it.
func (s *setBack) nextOf(c *Cron) int64 {
	for _, n := range s.next {
		if reckonedBy(c, &n.Spec, &n.TimeZone) {
			return n.NextMs
		}
	}
	return c.NextAt
}

func (s *setBack) batch(old *JobBatch) *JobBatch {
	b := *old
	s.past(&b.CreatedAt, &b.EndedAt)
	return &b
}

func (s *setBack) hold(old *Hold) *Hold {
	h := *old
	if h.Seq > s.lastSeq { // the job, which retention may have removed, is younger
		h.Until = s.later(h.Until)
	}
	return &h
}

func (s *setBack) request(old *RequestRecord) *RequestRecord {
	r := *old
	s.past(&r.At)
	return &r
}

// token keeps the expiry: it is a time by the wall clock that a person chose.
func (s *setBack) token(old *Token) *Token {
	t := *old
	s.past(&t.CreatedAt, &t.UsedAt)
	return &t
}

// figures counts what happened later in the minute of the new time.
func (s *setBack) figures(old *Figures) *Figures {
	f := *old
	f.History = old.History.setBack(s.now+s.by, s.now)
	return &f
}

// hook keeps the end of the old secret, which a person chose.
func (s *setBack) hook(old *Hook) *Hook {
	h := *old
	s.past(&h.CreatedAt, &h.UpdatedAt, &h.DeliveredAt, &h.FailingSince)
	h.Alerts = slices.Clone(old.Alerts)
	for i := range h.Alerts {
		s.past(&h.Alerts[i].Since)
	}
	return &h
}

func (s *setBack) hookEvent(old *HookEvent) *HookEvent {
	e := *old
	s.past(&e.At, &e.Since)
	return &e
}
