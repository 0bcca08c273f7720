package fsm_test

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

func byQueueName(a, b *fsm.QueueSettings) int { return strings.Compare(a.Name, b.Name) }

// settingsOf are the settings of a type, or the defaults.
func (m *model) settingsOf(typ string) *fsm.QueueSettings {
	if q := found(m.queues, func(q *fsm.QueueSettings) bool { return q.Name == typ }); q != nil {
		return q
	}
	return &fsm.QueueSettings{Name: typ, MaxAttempts: fsm.Unset, RetainMs: fsm.Unset, RetainCount: fsm.Unset}
}

func (m *model) hasSettings(typ string) bool {
	return slices.ContainsFunc(m.queues, func(q *fsm.QueueSettings) bool { return q.Name == typ })
}

func (m *model) setQueue(op *fsmpb.SetQueue) fsm.Result {
	if op.Remove {
		if !m.hasSettings(op.Name) {
			return fsm.Result{Code: fsm.NotFound}
		}
		was := m.settingsOf(op.Name).Pause
		m.queues = slices.DeleteFunc(slices.Clone(m.queues), func(q *fsm.QueueSettings) bool { return q.Name == op.Name })
		m.queueSet(op.Name, was, nil, false)
		return fsm.Result{}
	}
	old := m.settingsOf(op.Name)
	q := fsmpb.Copy(old)
	if op.Paused != nil {
		since := q.Pause.GetSinceMs()
		q.Paused, q.Pause = *op.Paused, nil
		if p := op.Pause; p != nil {
			q.Pause = &fsmpb.Pause{Reason: p.Reason, By: p.By, UntilMs: p.UntilMs, SinceMs: since}
			if since == 0 {
				q.Pause.SinceMs = m.meta.NowMs
			}
		}
	}
	for _, member := range []struct {
		there  *int64
		target *int64
	}{
		{op.MaxRunning, &q.MaxRunning},
		{op.MaxRunningPerGroup, &q.MaxRunningPerGroup},
		{op.RateMilli, &q.RateMilli},
		{op.Burst, &q.Burst},
		{op.AgingMs, &q.AgingMs},
		{op.LeaseMs, &q.LeaseMs},
		{op.TimeoutMs, &q.TimeoutMs},
		{op.MaxJobs, &q.MaxJobs},
		{op.MaxBytes, &q.MaxBytes},
		{op.MaxPayload, &q.MaxPayload},
	} {
		if member.there != nil {
			*member.target = max(*member.there, 0)
		}
	}
	for _, member := range []struct {
		there  *int64
		target **int64
	}{{op.RetainDeadMs, &q.RetainDeadMs}, {op.RetainDeadCount, &q.RetainDeadCount}} {
		if *member.target = cmp.Or(member.there, *member.target); *member.target != nil && **member.target < 0 {
			*member.target = nil
		}
	}
	for _, member := range []struct {
		there  *int64
		target *int64
	}{
		{op.MaxAttempts, &q.MaxAttempts},
		{op.RetainMs, &q.RetainMs},
		{op.RetainCount, &q.RetainCount},
	} {
		if member.there != nil {
			*member.target = max(*member.there, fsm.Unset)
		}
	}
	if op.Backoff != nil {
		if q.Backoff = op.Backoff; backoff.Kind(q.Backoff.Kind) == backoff.Unset {
			q.Backoff = nil
		}
	}
	switch {
	case q.RateMilli == 0:
		q.Level, q.LevelAtMs = 0, 0
	case q.RateMilli != old.RateMilli || q.Burst != old.Burst:
		q.Level, q.LevelAtMs = fullLevel(q), m.meta.NowMs
	}
	m.queues = put(m.queues, q, byQueueName)
	m.queueSet(op.Name, old.Pause, q.Pause, q.Paused)
	return fsm.Result{}
}

// queueSet is the event of a change of settings, which tells what it did to a pause that has
// a description.
func (m *model) queueSet(name string, was, is *fsmpb.Pause, paused bool) {
	text := "paused"
	switch {
	case was.String() == is.String():
		text = ""
	case !paused:
		text = "resumed"
	case is.GetReason() != "":
		text = "paused: " + is.Reason
	}
	m.events = append(m.events, event{kind: fsm.QueueSet, name: name, text: text})
}

// retire removes what ended, type by type, oldest end first, while there is too much of it or
// it is too old: first what ended well or was cancelled, then what died.
func (m *model) retire() {
	for _, typ := range m.types() {
		for m.retireOne(typ, false) {
		}
		for m.retireOne(typ, true) {
		}
	}
}

// retention is how long, and how many, jobs of a type are kept.
func (m *model) retention(typ string, dead bool) (keepMs, keep int64) {
	q := m.settingsOf(typ)
	if dead {
		keepMs, keep = 90*24*60*60*1000, math.MaxInt64
		if q.RetainDeadMs != nil {
			keepMs = *q.RetainDeadMs
		}
		if q.RetainDeadCount != nil {
			keep = *q.RetainDeadCount
		}
		return keepMs, keep
	}
	keepMs, keep = q.RetainMs, q.RetainCount
	if keepMs == fsm.Unset {
		keepMs = m.meta.Settings.RetainCompletedMs
	}
	if keep == fsm.Unset {
		keep = m.meta.Settings.RetainCompletedCount
	}
	return keepMs, keep
}

func (m *model) retireOne(typ string, dead bool) bool {
	keepMs, keep := m.retention(typ, dead)
	var oldest *fsm.Job
	n := int64(0)
	for _, j := range m.jobs {
		if j.Type == typ && hasEnded(j.Status) && dead == (j.Status == fsm.Dead) && !m.isKept(j) {
			n++
			if oldest == nil || goesBefore(j, oldest, keepMs) {
				oldest = j
			}
		}
	}
	for _, j := range m.jobs {
		if j.Type == typ && hasEnded(j.Status) && m.isKept(j) && len(m.waitersFor(j.ID)) == 0 && keptUntil(j, keepMs) <= m.meta.NowMs {
			m.did = append(m.did, "a job is kept for one that runs after it")
		}
	}
	if oldest == nil || n <= keep && keptUntil(oldest, keepMs) > m.meta.NowMs {
		return false
	}
	m.remove(oldest)
	m.rememberRemoved(oldest)
	if dead {
		m.counted = append(m.counted, counted{jobType: typ, removed: true})
		m.tell(outbox.JobRemoved, &outbox.Event{Subject: typ, JobId: oldest.ID, Attempts: oldest.Attempts, Text: oldest.Execution().LastError})
	}
	return true
}

// keptUntil is when a job is too old, by its own age or that of its type.
func keptUntil(j *fsm.Job, keepMs int64) int64 {
	if own := j.Options().RetainMs; own > 0 {
		keepMs = own
	}
	return sum(j.Execution().FinishedAt, keepMs, 1)
}

// goesBefore is whether a is too old before b; of those that are at the same time, the one that ended first is.
func goesBefore(a, b *fsm.Job, keepMs int64) bool {
	return cmp.Or(cmp.Compare(keptUntil(a, keepMs), keptUntil(b, keepMs)),
		cmp.Compare(a.Execution().FinishedAt, b.Execution().FinishedAt)) < 0
}

// owed is whether a job that completed has waiters that have not heard of it.
func (m *model) owed(j *fsm.Job) bool {
	return j.Status == fsm.Completed && len(m.waitersFor(j.ID)) > 0
}

// isKept is whether a job is needed by one that runs after it and has not ended, or that waits for it.
func (m *model) isKept(j *fsm.Job) bool {
	return len(m.waitersFor(j.ID)) > 0 || slices.ContainsFunc(m.jobs, func(o *fsm.Job) bool {
		return !hasEnded(o.Status) && slices.Contains(o.Options().After, j.ID)
	})
}
