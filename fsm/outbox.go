package fsm

import (
	"cmp"
	"slices"
	"strings"

	"osqueue/fsm/fsmpb"
)

// This file has the mutations about hooks, and fills their outboxes. DESIGN.md, section 22,
// has the rules.

func (m *Machine) hook(name string) *Hook {
	h, _ := m.hooks.Get(&Hook{Name: name})
	return h
}

// putHook makes or replaces a hook. A replaced hook keeps its outbox, its counters, and the alerts
// whose rules are unchanged.
func (m *Machine) putHook(op *fsmpb.PutHook) Result {
	h := hookFromPB(op.Hook)
	h.CreatedAt, h.UpdatedAt = m.meta.Now, m.meta.Now
	old := m.hook(h.Name)
	if old == nil && h.Key == "" {
		return Result{Code: NotFound} // the hook whose secret it would keep is gone
	}
	total := h.Buffer()
	m.hooks.Scan(func(o *Hook) bool {
		if o.Name != h.Name {
			total += o.Buffer()
		}
		return true
	})
	if old == nil && m.hooks.Len() >= HooksMax || total > HookBuffersMax {
		return Result{Code: TooManyHooks}
	}
	if old != nil {
		m.inherit(h, old, op.OverlapMs)
	}
	m.hooks.Set(h)
	return Result{}
}

// inherit gives h what it keeps of the hook that it replaces.
func (m *Machine) inherit(h, old *Hook, overlapMs int64) {
	h.OldSecret, h.OldUntil = old.OldSecret, old.OldUntil
	switch {
	case h.Key == "":
		h.HookSecret = old.HookSecret
	case h.HookSecret != old.HookSecret && overlapMs > 0:
		h.OldSecret, h.OldUntil = old.HookSecret, later(m.meta.Now, overlapMs)
	case h.HookSecret != old.HookSecret:
		h.OldSecret, h.OldUntil = HookSecret{}, 0
	}
	h.CreatedAt, h.Delivered, h.Failed, h.Dropped = old.CreatedAt, old.Delivered, old.Failed, old.Dropped
	h.DeliveredAt, h.FailingSince, h.LastError = old.DeliveredAt, old.FailingSince, old.LastError
	h.Pending, h.Bytes = old.Pending, old.Bytes
	for _, a := range old.Alerts {
		if h.Wants(a.Kind, a.Subject) {
			h.Alerts = append(h.Alerts, a)
		}
	}
}

func (m *Machine) deleteHook(op *fsmpb.DeleteHook) Result {
	if m.hook(op.Name) == nil {
		return Result{Code: NotFound}
	}
	m.dropHook(op.Name)
	return Result{}
}

// dropHook removes a hook and its outbox, in time proportional to the outbox, which
// HookBufferMax bounds.
func (m *Machine) dropHook(name string) {
	for e := m.oldestOf(name); e != nil; e = m.oldestOf(name) {
		m.outbox.Delete(e)
	}
	m.hooks.Delete(&Hook{Name: name})
}

// oldestOf returns the oldest event in the outbox of a hook, or nil.
func (m *Machine) oldestOf(name string) (oldest *HookEvent) {
	m.outbox.Ascend(&HookEvent{Hook: name}, func(e *HookEvent) bool {
		if e.Hook == name {
			oldest = e
		}
		return false
	})
	return oldest
}

func (m *Machine) testHook(op *fsmpb.TestHook) Result {
	h := m.hook(op.Name)
	if h == nil {
		return Result{Code: NotFound}
	}
	m.hookNumber++
	m.send(h, &HookEvent{Kind: HookTested, Subject: h.Name, Text: "a test"})
	return Result{Count: uint64(m.hookNumber)}
}

// reportHook removes events that were delivered or given up, and records how the hook fares.
// Events that are not in the outbox are skipped. Count is the number of events removed.
func (m *Machine) reportHook(op *fsmpb.ReportHook) Result {
	old := m.hook(op.Name)
	if old == nil {
		return Result{Code: NotFound}
	}
	h := *old
	delivered, failed := m.takeAll(&h, op.Delivered), m.takeAll(&h, op.Failed)
	h.Delivered += delivered
	h.Failed += failed
	if len(op.Delivered) > 0 {
		h.DeliveredAt, h.FailingSince, h.LastError = m.meta.Now, 0, ""
	}
	if op.Error != "" {
		h.FailingSince = cmp.Or(h.FailingSince, m.meta.Now)
		h.LastError = strings.Clone(cut(op.Error, hookTextMax))
	}
	if h.OldUntil != 0 && h.OldUntil <= m.meta.Now {
		h.OldSecret, h.OldUntil = HookSecret{}, 0
	}
	m.hooks.Set(&h)
	return Result{Count: delivered + failed}
}

func (m *Machine) takeAll(h *Hook, ids []*fsmpb.HookEventId) (n uint64) {
	for _, id := range ids {
		key := &HookEvent{Hook: h.Name, ID: HookEventID{LSN{id.Term, id.Index}, id.N}}
		if e, found := m.outbox.Get(key); found {
			m.take(h, e)
			n++
		}
	}
	return n
}

// take removes an event from the outbox of h, a copy that is not in the state yet.
func (m *Machine) take(h *Hook, e *HookEvent) {
	m.outbox.Delete(e)
	h.Pending--
	h.Bytes -= e.size()
}

// setAlert makes an event if an alert begins or ends. So a leader that repeats what its
// predecessor has reported changes nothing.
func (m *Machine) setAlert(op *fsmpb.SetAlert) Result {
	h := m.hook(op.Hook)
	if h == nil {
		return Result{Code: NotFound}
	}
	kind, subject := narrow[HookKind](op.Kind), cut(op.Subject, hookTextMax)
	at, fires := h.FindAlert(kind, subject)
	switch {
	case fires == op.Firing:
		return Result{Code: Duplicate}
	case op.Firing && !h.Wants(kind, subject):
		return Result{Code: NotFound}
	case op.Firing && len(h.Alerts) >= HookAlertsMax:
		return Result{Code: TooManyHooks}
	}
	m.hookNumber++
	alert := Alert{Kind: kind, Subject: strings.Clone(subject), Since: m.meta.Now, ID: HookEventID{m.meta.LSN, m.hookNumber}}
	changed := *h
	changed.Alerts = slices.Clone(h.Alerts)
	if op.Firing {
		changed.Alerts = slices.Insert(changed.Alerts, at, alert)
	} else {
		alert = changed.Alerts[at]
		changed.Alerts = slices.Delete(changed.Alerts, at, at+1)
	}
	m.send(&changed, &HookEvent{
		Kind: kind, Subject: alert.Subject, Text: strings.Clone(cut(op.Text, hookTextMax)),
		Resolved: !op.Firing, Alert: alert.ID, Since: alert.Since,
	})
	return Result{}
}

// tell puts an event into the outboxes of all hooks that want it.
func (m *Machine) tell(e HookEvent) {
	if m.hooks.Len() == 0 {
		return
	}
	m.hookNumber++
	e.Subject, e.Text, e.JobID = strings.Clone(cut(e.Subject, hookTextMax)), strings.Clone(cut(e.Text, hookTextMax)), strings.Clone(cut(e.JobID, hookTextMax))
	var wanting []*Hook // the tree must not change under Scan
	m.hooks.Scan(func(h *Hook) bool {
		if h.Wants(e.Kind, e.Subject) {
			wanting = append(wanting, h)
		}
		return true
	})
	for _, h := range wanting {
		own := e
		m.send(h, &own)
	}
}

// send puts the event with the number m.hookNumber into the outbox of a hook. It drops the oldest
// ones if the outbox is full. It replaces h.
func (m *Machine) send(h *Hook, e *HookEvent) {
	own := *h
	e.Hook, e.ID, e.At, e.Actor = h.Name, HookEventID{m.meta.LSN, m.hookNumber}, m.meta.Now, m.actor
	m.store(&own, e)
	for own.Bytes > own.Buffer() {
		m.take(&own, m.oldestOf(h.Name))
		own.Dropped++
	}
	m.hooks.Set(&own)
}

// store puts an event into the outbox of h, a copy that is not in the state yet.
func (m *Machine) store(h *Hook, e *HookEvent) {
	m.outbox.Set(e)
	h.Pending++
	h.Bytes += e.size()
}

// tellJob puts a change of a job's status into the outboxes of the hooks.
func (m *Machine) tellJob(from Status, j *Job) {
	e := HookEvent{Subject: j.Type, JobID: j.ID, Attempts: j.Attempts, Text: j.Execution().LastError}
	switch j.Status {
	case Completed:
		e.Kind, e.Text = HookJobCompleted, ""
	case Dead:
		e.Kind = HookJobDead
	case Cancelled:
		e.Kind = HookJobCancelled
	default:
		if from != InProgress || j.Status == InProgress || j.AttemptEnd != EndFail && j.AttemptEnd != EndLease && j.AttemptEnd != EndTimeout {
			return
		}
		e.Kind = HookJobFailed
	}
	m.tell(e)
}

// tellAnnounced puts a condition that the leader announced into the outboxes of the hooks.
func (m *Machine) tellAnnounced(k AnnounceKind, text string) {
	e := HookEvent{Subject: m.meta.Broker.Node, Text: text}
	switch k {
	case AnnounceBucketAway, AnnounceBucketBack:
		e.Kind, e.Resolved = HookBucketAway, k == AnnounceBucketBack
	case AnnounceWritesRefused, AnnounceWritesAccepted:
		e.Kind, e.Resolved = HookWritesRefused, k == AnnounceWritesAccepted
	case AnnounceBucketDamaged, AnnounceBucketHealed:
		e.Kind, e.Resolved = HookBucketDamaged, k == AnnounceBucketHealed
	}
	m.tell(e)
}

// stateChecked reports nodes with a state other than the majority's to the hooks. It changes
// nothing else.
func (m *Machine) stateChecked(op *fsmpb.StateChecked) Result {
	if len(op.Diverged) > 0 {
		m.tell(HookEvent{Kind: HookDiverged, Subject: strings.Join(op.Diverged, " "), Text: "the state of these nodes differs from that of most"})
	}
	return Result{}
}
