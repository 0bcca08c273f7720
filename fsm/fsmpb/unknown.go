// Package fsmpb has the encoded forms of log entries and of snapshot records. All other
// files are generated.
package fsmpb

import "slices"

// HasUnknown reports whether b, or any message in it, carries a field that
// this version does not know. Walking by hand costs nanoseconds where
// reflection costs microseconds; a test keeps the walk complete.
func (b *Batch) HasUnknown() bool {
	return len(b.unknownFields) > 0 || slices.ContainsFunc(b.Mutations, (*Mutation).HasUnknown)
}

// HasUnknown is Batch.HasUnknown for one mutation.
func (m *Mutation) HasUnknown() bool {
	if m == nil {
		return false
	}
	if len(m.unknownFields) > 0 || m.Request != nil && len(m.Request.unknownFields) > 0 {
		return true
	}
	switch op := m.Op.(type) {
	case *Mutation_Enqueue:
		return op.Enqueue.hasUnknown()
	case *Mutation_Claim:
		return len(op.Claim.unknownFields) > 0
	case *Mutation_Heartbeat:
		return len(op.Heartbeat.unknownFields) > 0 || slices.ContainsFunc(op.Heartbeat.Leases, (*Lease).hasUnknown)
	case *Mutation_Complete:
		return len(op.Complete.unknownFields) > 0 || op.Complete.Lease.hasUnknown()
	case *Mutation_Fail:
		return len(op.Fail.unknownFields) > 0 || op.Fail.Lease.hasUnknown()
	case *Mutation_Release:
		return len(op.Release.unknownFields) > 0 || op.Release.Lease.hasUnknown()
	}
	return m.rareHasUnknown()
}

func (m *Mutation) rareHasUnknown() bool {
	switch op := m.Op.(type) {
	case *Mutation_RegisterWorker:
		return len(op.RegisterWorker.unknownFields) > 0 || op.RegisterWorker.Quota.hasUnknown()
	case *Mutation_WorkerDead:
		return len(op.WorkerDead.unknownFields) > 0
	case *Mutation_SetQuiet:
		return len(op.SetQuiet.unknownFields) > 0
	case *Mutation_RegisterBroker:
		return len(op.RegisterBroker.unknownFields) > 0 || op.RegisterBroker.Settings.hasUnknown()
	case *Mutation_Change:
		return len(op.Change.unknownFields) > 0 || op.Change.Filter != nil && len(op.Change.Filter.unknownFields) > 0
	case *Mutation_SetQueue:
		return op.SetQueue.hasUnknown()
	case *Mutation_Group:
		return len(op.Group.unknownFields) > 0 || slices.ContainsFunc(op.Group.Mutations, (*Mutation).HasUnknown)
	case *Mutation_Announce:
		return len(op.Announce.unknownFields) > 0
	case *Mutation_ForceComplete:
		return len(op.ForceComplete.unknownFields) > 0
	case *Mutation_RaiseLevel:
		return len(op.RaiseLevel.unknownFields) > 0
	case *Mutation_CheckState:
		return len(op.CheckState.unknownFields) > 0
	case *Mutation_StateChecked:
		return len(op.StateChecked.unknownFields) > 0
	case *Mutation_PutCron:
		return op.PutCron.hasUnknown()
	case *Mutation_PauseCron:
		return len(op.PauseCron.unknownFields) > 0
	case *Mutation_DeleteCron:
		return len(op.DeleteCron.unknownFields) > 0
	case *Mutation_FireCron:
		return len(op.FireCron.unknownFields) > 0
	case *Mutation_TriggerCron:
		return len(op.TriggerCron.unknownFields) > 0
	}
	return m.adminHasUnknown()
}

// adminHasUnknown is for tokens and hooks.
func (m *Mutation) adminHasUnknown() bool {
	switch op := m.Op.(type) {
	case *Mutation_CreateToken:
		return len(op.CreateToken.unknownFields) > 0 || op.CreateToken.Token != nil && op.CreateToken.Token.HasUnknown()
	case *Mutation_RevokeToken:
		return len(op.RevokeToken.unknownFields) > 0
	case *Mutation_TouchTokens:
		return len(op.TouchTokens.unknownFields) > 0
	case *Mutation_PutHook:
		return len(op.PutHook.unknownFields) > 0 || op.PutHook.Hook != nil && op.PutHook.Hook.HasUnknown()
	case *Mutation_DeleteHook:
		return len(op.DeleteHook.unknownFields) > 0
	case *Mutation_TestHook:
		return len(op.TestHook.unknownFields) > 0
	case *Mutation_ReportHook:
		return len(op.ReportHook.unknownFields) > 0 || slices.ContainsFunc(op.ReportHook.Delivered, (*HookEventId).hasUnknown) ||
			slices.ContainsFunc(op.ReportHook.Failed, (*HookEventId).hasUnknown)
	case *Mutation_SetAlert:
		return len(op.SetAlert.unknownFields) > 0
	}
	return false
}

func (i *HookEventId) hasUnknown() bool { return i != nil && len(i.unknownFields) > 0 }

func (a *Alert) hasUnknown() bool { return a != nil && len(a.unknownFields) > 0 }

func (e *Enqueue) hasUnknown() bool {
	return len(e.unknownFields) > 0 || slices.ContainsFunc(e.Jobs, (*NewJob).hasUnknown) || e.NewBatch.hasUnknown() ||
		e.Scope != nil && len(e.Scope.unknownFields) > 0
}

func (b *NewBatch) hasUnknown() bool {
	return b != nil && (len(b.unknownFields) > 0 || b.Callback.hasUnknown() || b.Quota.hasUnknown())
}

func (j *NewJob) hasUnknown() bool {
	return j != nil && (len(j.unknownFields) > 0 || j.Backoff.hasUnknown() || j.Unique.hasUnknown() || j.Quota.hasUnknown() ||
		slices.ContainsFunc(j.Headers, (*Header).hasUnknown))
}

func (b *Backoff) hasUnknown() bool { return b != nil && len(b.unknownFields) > 0 }

func (h *Header) hasUnknown() bool { return h != nil && len(h.unknownFields) > 0 }

func (q *Quota) hasUnknown() bool { return q != nil && len(q.unknownFields) > 0 }

func (u *Unique) hasUnknown() bool { return u != nil && len(u.unknownFields) > 0 }

func (l *Lease) hasUnknown() bool {
	return l != nil && (len(l.unknownFields) > 0 || l.Progress.hasUnknown())
}

func (p *Progress) hasUnknown() bool { return p != nil && len(p.unknownFields) > 0 }

func (s *Settings) hasUnknown() bool { return s != nil && len(s.unknownFields) > 0 }

func (s *SetQueue) hasUnknown() bool {
	return s != nil && (len(s.unknownFields) > 0 || s.Backoff.hasUnknown() || s.Pause.hasUnknown())
}

func (p *Pause) hasUnknown() bool { return p != nil && len(p.unknownFields) > 0 }

func (c *PutCron) hasUnknown() bool {
	return c != nil && (len(c.unknownFields) > 0 || c.Job.hasUnknown())
}

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (m *Meta) HasUnknown() bool { return len(m.unknownFields) > 0 || m.Settings.hasUnknown() }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (j *Job) HasUnknown() bool {
	return len(j.unknownFields) > 0 || j.Options.hasUnknown() || j.Details.hasUnknown()
}

func (o *Options) hasUnknown() bool {
	return o != nil && (len(o.unknownFields) > 0 || o.Backoff.hasUnknown() || o.Unique.hasUnknown() ||
		slices.ContainsFunc(o.Headers, (*Header).hasUnknown))
}

func (d *Details) hasUnknown() bool {
	return d != nil && (len(d.unknownFields) > 0 || d.Progress.hasUnknown() ||
		slices.ContainsFunc(d.History, func(a *Attempt) bool { return len(a.unknownFields) > 0 }))
}

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (w *Worker) HasUnknown() bool { return len(w.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (r *ClaimRecord) HasUnknown() bool {
	return len(r.unknownFields) > 0 || slices.ContainsFunc(r.Leases, (*Lease).hasUnknown)
}

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (q *Queue) HasUnknown() bool { return len(q.unknownFields) > 0 || q.Settings.hasUnknown() }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (t *Turn) HasUnknown() bool { return len(t.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (c *Cron) HasUnknown() bool { return len(c.unknownFields) > 0 || c.Cron.hasUnknown() }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (b *JobBatch) HasUnknown() bool { return len(b.unknownFields) > 0 || b.Callback.hasUnknown() }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (h *Hold) HasUnknown() bool { return len(h.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (r *RequestRecord) HasUnknown() bool {
	return len(r.unknownFields) > 0 ||
		slices.ContainsFunc(r.Items, func(i *RequestItem) bool { return len(i.unknownFields) > 0 })
}

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (t *Token) HasUnknown() bool { return len(t.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (f *Figures) HasUnknown() bool { return len(f.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (h *Hook) HasUnknown() bool {
	return len(h.unknownFields) > 0 || slices.ContainsFunc(h.Alerts, (*Alert).hasUnknown)
}

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (e *HookEvent) HasUnknown() bool { return len(e.unknownFields) > 0 }
