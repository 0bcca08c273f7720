package fsm

import (
	"strings"

	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/timers"
)

// queuesMax is the largest number of types with settings. Settings are kept until they
// are removed.
const queuesMax = 10_000

func bySettings(a, b *QueueSettings) bool { return a.Name < b.Name }

func defaultQueue(name string) *QueueSettings {
	return &QueueSettings{Name: name, MaxAttempts: Unset, RetainMs: Unset, RetainCount: Unset}
}

// setQueue changes the settings of a type, or removes them.
func (e *entry) setQueue(op *fsmpb.SetQueue) Result {
	t := &e.types
	old, found := t.settings.Get(&QueueSettings{Name: op.Name})
	var s *QueueSettings
	switch {
	case op.Remove && !found:
		return Result{Code: NotFound}
	case agingAfter(old, op) != old.GetAgingMs() && e.TypeStats(op.Name).Counts[Unclaimed] > sortMax:
		return Result{Code: TooManyWaiting}
	case op.Remove:
		t.settings.Delete(old)
	case !found && t.settings.Len() >= queuesMax:
		return Result{Code: TooManyQueues}
	default:
		s = t.changedSettings(old, op)
	}
	t.useSettings(t.queue(op.Name), s)
	e.events = append(e.events, Event{Kind: QueueSet, Name: strings.Clone(op.Name), Text: pauseText(old, s)})
	return Result{}
}

// agingAfter returns the aging_ms of the settings after the mutation.
func agingAfter(old *QueueSettings, op *fsmpb.SetQueue) int64 {
	aging := old.GetAgingMs()
	assign(&aging, op.AgingMs, 0)
	if op.Remove {
		return 0
	}
	return aging
}

func (t *types) changedSettings(old *QueueSettings, op *fsmpb.SetQueue) *QueueSettings {
	var s *QueueSettings
	if old == nil {
		s = defaultQueue(t.queue(op.Name).name)
	} else {
		s = fsmpb.Copy(old)
	}
	rate, burst := s.RateMilli, s.Burst
	if op.Paused != nil {
		setPause(s, t.meta.NowMs, *op.Paused, op.Pause)
	}
	assign(&s.MaxRunning, op.MaxRunning, 0)
	assign(&s.MaxRunningPerGroup, op.MaxRunningPerGroup, 0)
	assign(&s.RateMilli, op.RateMilli, 0)
	assign(&s.Burst, op.Burst, 0)
	assign(&s.AgingMs, op.AgingMs, 0)
	assign(&s.LeaseMs, op.LeaseMs, 0)
	assign(&s.TimeoutMs, op.TimeoutMs, 0)
	assign(&s.MaxAttempts, op.MaxAttempts, Unset)
	assign(&s.RetainMs, op.RetainMs, Unset)
	assign(&s.RetainCount, op.RetainCount, Unset)
	s.RetainDeadMs = reassigned(s.RetainDeadMs, op.RetainDeadMs)
	s.RetainDeadCount = reassigned(s.RetainDeadCount, op.RetainDeadCount)
	assign(&s.MaxJobs, op.MaxJobs, 0)
	assign(&s.MaxBytes, op.MaxBytes, 0)
	assign(&s.MaxPayload, op.MaxPayload, 0)
	if op.Backoff != nil {
		s.Backoff = fsmpb.Clone(op.Backoff)
		if s.Backoff.Kind == uint32(backoff.Unset) {
			s.Backoff = nil
		}
	}
	if old == nil || s.RateMilli != rate || s.Burst != burst {
		fillRate(s, t.meta.NowMs)
	}
	return s
}

// assign sets a field to value if there is one; a negative value means the default.
func assign(field, value *int64, otherwise int64) {
	switch {
	case value == nil:
	case *value < 0:
		*field = otherwise
	default:
		*field = *value
	}
}

// reassigned is assign for a field that is nil by default.
func reassigned(field, value *int64) *int64 {
	switch {
	case value == nil:
		return field
	case *value < 0:
		return nil
	}
	return new(*value)
}

// useSettings replaces the settings of a type; nil means the defaults. It takes time in
// proportion to the number of groups of the type.
func (t *types) useSettings(q *queue, s *QueueSettings) {
	q.settings = s
	t.changed(q)
	if aging := s.GetAgingMs(); aging != q.agingMs {
		t.sortAgain(q, aging)
	}
	resumeAt := int64(0)
	if s != nil {
		t.settings.Set(s)
		resumeAt = s.Pause.GetUntilMs()
	}
	t.timers.Move(&q.resumeAt, resumeAt, timers.Resume, q.name)
	for _, g := range q.groups {
		t.refresh(q, g)
	}
	t.refreshHead(q)
	t.arrive(q, min(t.claimCapacity(q), q.counts[Unclaimed]))
	t.markDirty(q)
	t.dropIdle(q)
}
