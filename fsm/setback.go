package fsm

// SetBack makes a machine that has the state v at an earlier time, nowMs, for a queue
// whose clock was ahead. What has happened since is taken to have happened at nowMs.
// All leases and workers count anew from there. What was set for a later time since
// then, delays and retries among it, moves back by as much as the clock; times that
// were set before stay. next returns a schedule's next time after nowMs, in ms, 0 for
// never. The state keeps its LSN. v is not changed.
func SetBack(v *View, nowMs int64, next func(*Cron) int64) (*Machine, error) {
	s := setBack{now: nowMs, by: v.meta.Now - nowMs}
	meta := v.meta
	meta.Now, meta.LeasesFrom = nowMs, nowMs
	b := NewBuilder(meta)
	err := error(nil)
	add := func(e error) bool {
		err = e
		return e == nil
	}
	created := make(map[string]int64) // of the jobs that hold unique keys for a period
	v.jobs.Scan(func(j *Job) bool {
		if j.Options().Unique.Scope == UniquePeriod {
			created[j.ID] = j.CreatedAt
		}
		return add(b.AddJob(s.job(j)))
	})
	scan(&err, v.workers.Scan, func(w *Worker) bool {
		c := *w
		s.past(&c.RegisteredAt, &c.LastSeen)
		return add(b.AddWorker(&c))
	})
	scan(&err, v.claims.Scan, func(r *ClaimRecord) bool {
		c := *r
		s.past(&c.ClaimedAt)
		return add(b.AddClaim(&c))
	})
	scan(&err, v.queues.Scan, func(q *QueueSettings) bool {
		c := *q
		s.past(&c.LevelAt)
		return add(b.AddQueue(&c))
	})
	scan(&err, v.turns.Scan, func(t *Turn) bool { return add(b.AddTurn(t)) })
	scan(&err, v.crons.Scan, func(c *Cron) bool {
		n := *c
		s.past(&n.CreatedAt, &n.UpdatedAt, &n.LastAt)
		if !n.Paused && n.NextAt > nowMs {
			n.NextAt = next(c)
		}
		return add(b.AddCron(&n))
	})
	scan(&err, v.batches.Scan, func(p *JobBatch) bool {
		c := *p
		s.past(&c.CreatedAt, &c.EndedAt)
		return add(b.AddBatch(&c))
	})
	scan(&err, v.holds.Scan, func(h *Hold) bool {
		c := *h
		if created[h.JobID] > nowMs {
			c.Until = s.later(c.Until)
		}
		return add(b.AddHold(&c))
	})
	scan(&err, v.requests.Scan, func(r *RequestRecord) bool {
		c := *r
		s.past(&c.At)
		return add(b.AddRequest(&c))
	})
	if err != nil {
		return nil, err
	}
	return b.Machine(), nil
}

// scan walks a collection, unless an earlier one has failed.
func scan[T any](err *error, walk func(func(T) bool), fn func(T) bool) {
	if *err == nil {
		walk(fn)
	}
}

// setBack moves times back to now, by as much as the clock.
type setBack struct{ now, by int64 }

// past has times that lie ahead be now.
func (s setBack) past(times ...*int64) {
	for _, t := range times {
		*t = min(*t, s.now)
	}
}

// later is a time that was set while the clock was ahead.
func (s setBack) later(at int64) int64 { return max(s.now, at-s.by) }

func (s setBack) job(old *Job) *Job {
	j := *old
	if old.Det != nil {
		j.Det = s.details(old.Det)
	}
	since := old.CreatedAt // when RunAt was set
	if h := old.Details().History; len(h) > 0 && old.AttemptEnd != NoEnd {
		since = max(since, h[len(h)-1].EndedAt)
	}
	if since > s.now && j.RunAt > s.now {
		j.RunAt = s.later(j.RunAt)
	}
	s.past(&j.CreatedAt, &j.ClaimedAt, &j.Heartbeat, &j.FinishedAt)
	return &j
}

func (s setBack) details(old *Details) *Details {
	d := *old
	s.past(&d.ProgressAt, &d.CancelAt)
	d.History = make([]Attempt, len(old.History))
	for i, a := range old.History {
		s.past(&a.StartedAt, &a.EndedAt)
		d.History[i] = a
	}
	if len(d.History) == 0 {
		d.History = nil
	}
	return &d
}
