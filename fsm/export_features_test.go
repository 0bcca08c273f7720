package fsm

import (
	"slices"

	"osqueue/fsm/answers"
	"osqueue/fsm/timers"
)

// PutOff returns the kinds of work that fell due and that the last entry had no budget
// for.
func (m *Machine) PutOff() (kinds []string) {
	names := map[timers.Kind]string{
		timers.Due: "job due", timers.Lease: "lease", timers.Worker: "worker", timers.Timeout: "timeout",
		timers.Permit: "permit", timers.Retain: "retention",
		timers.Limit: "limit", timers.Expiry: "expiry",
	}
	m.timers.Scan(func(t timers.Timer) bool {
		if t.At > m.meta.NowMs {
			return false
		}
		if m.exactly(t) {
			kinds = append(kinds, names[t.Kind])
		}
		return true
	})
	if _, ok := m.waits.First(); ok {
		kinds = append(kinds, "waiters")
	}
	return kinds
}

// exactly reports whether something falls due at the time of the timer: the timer of a
// lease, timeout or worker may be early.
func (m *Machine) exactly(t timers.Timer) bool {
	switch t.Kind {
	case timers.Lease:
		return timers.LeaseEnd(m.meta, m.ids.Get(t.Key)) <= m.meta.NowMs
	case timers.Timeout:
		return timers.TimeoutEnd(m.meta, m.ids.Get(t.Key)) <= m.meta.NowMs
	case timers.Worker:
		w, _ := m.workers.Get(&Worker{Name: t.Key})
		return workerEnd(m.meta, w) <= m.meta.NowMs
	}
	return true
}

// Features returns the features that the state uses.
func (m *Machine) Features() (names []string) {
	note := func(name string, used bool) {
		if used {
			names = append(names, name)
		}
	}
	note("workers", m.workers.Len() > 0)
	m.workers.Scan(func(w *Worker) bool { note("quiet workers", w.Quiet()); note("gone workers", w.Gone()); return true })
	note("claims", m.claims.Records.Len() > 0)
	note("turns of groups", m.types.turns.Len() > 0)
	note("rules of limits", m.types.limits.rules > 0)
	note("parked lanes", m.types.limits.parked.Len() > 0)
	m.types.limits.records.Scan(func(l *Limit) bool {
		note("buckets of limits", l.LevelAtMs > 0)
		note("holds of limits", l.HeldUntilMs > 0)
		note("limits that will open", l.OpensAtMs > 0)
		return true
	})
	note("schedules", m.crons.Len() > 0)
	note("batches", m.batches.Len() > 0)
	note("dependencies", m.counts[Blocked] > 0)
	note("unique keys", m.uniques.Holders.Len() > 0)
	note("unique keys for a period", m.uniques.Len() > 0)
	note("cancelled jobs", m.counts[Cancelled] > 0)
	m.batches.Scan(func(b *JobBatch) bool { note("callbacks", b.Callback != nil && !b.Called); return true })
	m.crons.Scan(func(c *Cron) bool {
		note("paused schedules", c.Paused)
		note("runs of schedules", slices.ContainsFunc(c.Runs, func(r *CronRun) bool { return r.Status != 0 }))
		return true
	})
	m.requests.Records.Scan(func(r *RequestRecord) bool {
		removed := answers.RemovedJob(r) != nil
		note("requests", !removed)
		note("removed jobs", removed)
		return true
	})
	m.types.settings.Scan(func(s *QueueSettings) bool {
		note("pauses", s.Paused)
		note("limits of running jobs", limitsRunning(s))
		note("rates", s.RateMilli > 0 && bucketOf(s).levelAt(m.meta.NowMs) < permit)
		note("retention of a type", s.RetainMs != Unset || s.RetainCount != Unset)
		note("retention of the dead jobs of a type", s.RetainDeadMs != nil || s.RetainDeadCount != nil)
		return true
	})
	m.jobs.Scan(func(j *Job) bool {
		note("priorities", j.Status == Unclaimed && j.Priority != 0)
		note("timeouts", j.Status == InProgress && j.Details().TimeoutMs > 0)
		note("backoff", j.Status == Scheduled && j.Attempts > 0)
		return true
	})
	return names
}
