package fsm

// SetBack returns a machine with the state v at the earlier time nowMs, for a queue whose
// clock was ahead. Events after nowMs count as events at nowMs. The times of all leases
// and workers count from nowMs. A time that was set for later since then, such as a delay
// or a retry, moves back by as much as the clock; a time that was set before stays. next
// returns a schedule's next time after nowMs, in ms, or 0 for never. The state keeps its
// LSN. SetBack does not change v.
func SetBack(v *View, nowMs int64, next func(*Cron) int64) (*Machine, error) {
	s := setBack{now: nowMs, by: v.meta.Now - nowMs, next: next, created: make(map[string]int64)}
	meta := v.meta
	meta.Now, meta.LeasesFrom = nowMs, nowMs
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
	if err != nil {
		return nil, err
	}
	return b.Machine(), nil
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
	next    func(*Cron) int64
	created map[string]int64 // creation times of the jobs with a unique key for a period
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
	if old.Options().Unique.Scope == UniquePeriod {
		s.created[old.ID] = old.CreatedAt
	}
	j := *old
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
	s.past(&j.CreatedAt, &j.ClaimedAt, &j.Heartbeat, &j.FinishedAt)
	return &j
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
	s.past(&w.RegisteredAt, &w.LastSeen)
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
	return &q
}

func (s *setBack) cron(old *Cron) *Cron {
	c := *old
	s.past(&c.CreatedAt, &c.UpdatedAt, &c.LastAt)
	if c.NextAt > s.now {
		c.NextAt = s.next(old)
	}
	return &c
}

func (s *setBack) batch(old *JobBatch) *JobBatch {
	b := *old
	s.past(&b.CreatedAt, &b.EndedAt)
	return &b
}

func (s *setBack) hold(old *Hold) *Hold {
	h := *old
	if s.created[h.JobID] > s.now {
		h.Until = s.later(h.Until)
	}
	return &h
}

func (s *setBack) request(old *RequestRecord) *RequestRecord {
	r := *old
	s.past(&r.At)
	return &r
}
