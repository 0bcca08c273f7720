package fsm_test

import (
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// setClock sets the clock back by the rules of DESIGN.md: it copies every record, field by
// field.
func (m *model) setClock(op *fsmpb.SetClock) fsm.Result {
	to, was := op.ToMs, m.meta.Now
	if to >= was {
		return fsm.Result{Code: fsm.Duplicate}
	}
	youngest := uint64(0) // of the jobs from before
	for _, j := range m.jobs {
		if j.CreatedAt <= to && j.Seq > youngest {
			youngest = j.Seq
		}
	}
	old := m.copied()
	m.meta.Now, m.meta.LeasesFrom = to, to
	for i, j := range m.jobs {
		m.jobs[i] = old.jobAt(j, to)
	}
	for i, h := range m.holds {
		if c := *h; h.Seq > youngest {
			c.Until = max(to, sum(h.Until, -(was-to)))
			m.holds[i] = &c
		}
	}
	m.recordsAt(was, to)
	m.hooksAt(to)
	for i, s := range m.crons {
		c := *s
		c.CreatedAt, c.UpdatedAt, c.LastAt = min(c.CreatedAt, to), min(c.UpdatedAt, to), min(c.LastAt, to)
		for _, n := range slices.Backward(op.Next) { // the first one of a spec counts
			if s.NextAt > to && n.Spec == s.Spec && n.TimeZone == s.TimeZone {
				c.NextAt = n.NextMs
			}
		}
		m.crons[i] = &c
	}
	return fsm.Result{Count: uint64(was - to)}
}

// jobAt is a job of m, the model of before, at the earlier time.
func (m *model) jobAt(old *fsm.Job, to int64) *fsm.Job {
	j := *withExecution(old)
	last := j.CreatedAt // when runAt was set
	details(&j, func(d *fsm.Details) {
		d.ProgressAt, d.CancelAt = min(d.ProgressAt, to), min(d.CancelAt, to)
		d.History = slices.Clone(d.History)
		for i := range d.History {
			last = max(last, d.History[i].EndedAt)
			d.History[i].StartedAt, d.History[i].EndedAt = min(d.History[i].StartedAt, to), min(d.History[i].EndedAt, to)
		}
	})
	if last > to && j.RunAt > to {
		j.RunAt = max(to, sum(j.RunAt, -(m.meta.Now-to)))
	}
	b := m.batch(j.Options().Batch)
	stranger := j.Options().Batch != "" && (b == nil || b.CreatedAt > j.CreatedAt)
	if j.CreatedAt = min(j.CreatedAt, to); stranger {
		j.CreatedAt = min(j.CreatedAt, to-1)
	}
	e := j.Exec
	e.ClaimedAt, e.Heartbeat, e.FinishedAt = min(e.ClaimedAt, to), min(e.Heartbeat, to), min(e.FinishedAt, to)
	return &j
}

// recordsAt takes the times of workers, claims, types, batches and requests back. Requests
// stand by (time, key).
func (m *model) recordsAt(was, to int64) {
	for i, w := range m.workers {
		c := *w
		c.RegisteredAt, c.LastSeen = min(c.RegisteredAt, to), min(c.LastSeen, to)
		c.QuietSince, c.GoneAt = min(c.QuietSince, to), min(c.GoneAt, to)
		m.workers[i] = &c
	}
	for i, r := range m.claims {
		c := *r
		c.ClaimedAt = min(c.ClaimedAt, to)
		m.claims[i] = &c
	}
	for i, q := range m.queues {
		c := *q
		c.LevelAt = min(c.LevelAt, to)
		if c.Pause.Since > to && c.Pause.Until > 0 {
			c.Pause.Until = max(to, sum(c.Pause.Until, -(was-to)))
		}
		c.Pause.Since = min(c.Pause.Since, to)
		m.queues[i] = &c
	}
	for i, b := range m.batches {
		c := *b
		c.CreatedAt, c.EndedAt = min(c.CreatedAt, to), min(c.EndedAt, to)
		m.batches[i] = &c
	}
	for i, r := range m.requests {
		c := *r
		c.At = min(c.At, to)
		m.requests[i] = &c
	}
	slices.SortFunc(m.requests, byTimeAndKey)
	for i := range m.counted {
		c := &m.counted[i]
		c.gone = c.gone || c.at/60_000 <= was/60_000-fsm.HistoryMinutes
		c.at = min(c.at, to)
	}
	for i, k := range m.tokens {
		c := *k
		c.CreatedAt, c.UsedAt = min(c.CreatedAt, to), min(c.UsedAt, to)
		m.tokens[i] = &c
	}
}
