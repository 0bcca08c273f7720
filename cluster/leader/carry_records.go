package leader

import (
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Records other than jobs are carried over as follows. "Here" is this cluster's state, and
// "there" is the document's.
//
//   - A schedule that was added, changed or deleted here only, is so in the adopted state. The
//     creation and update times of schedules say where it was changed after the fork. If both
//     clusters changed it, the document's version counts, and the copy has the other one. A changed
//     schedule keeps the count and times of its fires there. In the very millisecond of the fork,
//     there is no other cluster yet, so such a change was made here: before the fork if the
//     document has it, and otherwise after it.
//   - A request key of this cluster is remembered in the adopted state if the effect of its request
//     is there, too. A repeated request then gets its first answer. A request that named no job
//     (settings, schedules, changes by filter) is not remembered: its repetition does what the
//     first one did. Keys of claims are not remembered, because the leases are not carried over.
//   - If both clusters answered a request with the same key, the client has the later answer, so the
//     document's counts. The jobs that the request enqueued here are only in the copy: one request
//     must not run twice.
//   - An access token that was created here is there, too. One that was revoked here is revoked
//     there; of two expiries the earlier one counts.
//   - A hook that was put or deleted here after the fork is so there; it keeps its outbox there, and
//     gets the events of this cluster since the fork.
//   - Settings of types have no times, so nothing says which cluster changed them. The document's
//     count, because the other cluster has answered by them since. The copy has those of this
//     cluster that differ, and the log names the types.
//
// If the document has no changes of another cluster (fork.ours), all records of this cluster
// replace those of the document.

// recordCounts counts the records of a carry.
type recordCounts struct {
	keys      int // request keys
	schedules int // added, changed or deleted
	settings  int // types
	tokens    int // added, expired or revoked
	hooks     int // put or deleted
}

// keptRecords has the records that are only in the copy.
type keptRecords struct {
	settings  []*fsm.QueueSettings
	schedules []*fsm.Cron
}

func (k *keptRecords) len() int { return len(k.settings) + len(k.schedules) }

// keepAll keeps all schedules and settings of v that differ from the document's.
func (c *carried) keepAll(v *fsm.View) {
	v.Crons("", func(here *fsm.Cron) bool {
		if there := c.doc.Cron(here.Name); there == nil || !here.SameAs(there) {
			c.records.schedules = append(c.records.schedules, here)
		}
		return true
	})
	c.settingsOf(v, fork{})
}

// since reports whether a record of this cluster is younger than the fork.
func (f fork) since(r *fsm.RequestRecord) bool { return f.ours || r.LSN.Compare(f.lsn) > 0 }

// findRepeated records the jobs of requests that both clusters have answered.
func (c *carried) findRepeated(v *fsm.View, f fork) {
	if f.ours {
		return
	}
	v.Requests(func(r *fsm.RequestRecord) bool {
		if f.since(r) && r.Removed() == nil && c.m.Request(r.Key) != nil {
			for _, i := range r.Items {
				c.repeated[i.JobID] = struct{}{}
			}
		}
		return true
	})
}

// endRemoved ends the jobs of the document that ended here and that retention has removed here.
// Their results are gone.
func (c *carried) endRemoved(v *fsm.View, f fork) {
	v.Requests(func(r *fsm.RequestRecord) bool {
		if j := r.Removed(); j != nil && f.since(r) {
			c.end(j, f)
		}
		return true
	})
}

// requests carries the request keys of v over.
func (c *carried) requests(v *fsm.View, f fork) {
	here := statuses(v, f)
	v.Requests(func(r *fsm.RequestRecord) bool {
		switch removed := r.Removed(); {
		case !f.since(r):
		case removed != nil:
			if c.m.Job(removed.ID) == nil {
				c.m.CarryRequest(r)
			}
		case c.hasEffect(here, r) && c.m.CarryRequest(r):
			c.counts.keys++
		}
		return true
	})
}

// statuses returns the statuses in v of the jobs that requests since the fork name. Jobs that
// are gone are missing.
func statuses(v *fsm.View, f fork) map[string]fsm.Status {
	named := make(map[string]struct{})
	v.Requests(func(r *fsm.RequestRecord) bool {
		for _, i := range r.Items {
			if f.since(r) {
				named[i.JobID] = struct{}{}
			}
		}
		return true
	})
	here := make(map[string]fsm.Status, len(named))
	if len(named) > 0 {
		v.Merged(allStatuses, 0, func(j *fsm.Job) bool {
			if _, ok := named[j.ID]; ok {
				here[j.ID] = j.Status
			}
			return true
		})
	}
	return here
}

// hasEffect reports whether the adopted state has the effect that a request had here.
func (c *carried) hasEffect(here map[string]fsm.Status, r *fsm.RequestRecord) bool {
	for _, i := range r.Items {
		if i.JobID == "" || !i.Code.Done() {
			continue
		}
		if i.Code == fsm.OK && i.Status == fsm.InProgress || !c.sameEnd(here[i.JobID], i) {
			return false
		}
	}
	return len(r.Items) > 0
}

// sameEnd reports whether the job of an item is in the adopted state as it is here, where 0 is
// the status of a job that is gone: it was carried over, it has the same end, or it is gone in
// both.
func (c *carried) sameEnd(here fsm.Status, i fsm.RequestItem) bool {
	there := c.m.Job(i.JobID)
	ended := there != nil && slices.Contains(endedStatuses, there.Status)
	if here == 0 || there == nil {
		return here == 0 && (there == nil || ended)
	}
	_, came := c.ids[i.JobID]
	return came || i.Code == fsm.Duplicate || ended && there.Status == here
}

// schedules brings the changes of schedules of v into the adopted state.
func (c *carried) schedules(v *fsm.View, f fork) {
	v.Crons("", func(here *fsm.Cron) bool {
		c.schedule(here, f)
		return true
	})
	c.doc.Crons("", func(there *fsm.Cron) bool {
		if v.Cron(there.Name) == nil && (f.ours || max(there.CreatedAt, there.UpdatedAt) <= f.now) {
			op := &fsmpb.DeleteCron{Name: there.Name}
			c.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: op}})
			c.counts.schedules++
		}
		return true
	})
}

func (c *carried) schedule(here *fsm.Cron, f fork) {
	there := c.doc.Cron(here.Name)
	switch {
	case there != nil && here.SameAs(there):
	case f.ours, there == nil && here.CreatedAt >= f.now:
		c.putSchedule(here)
	case here.UpdatedAt < f.now: // changed there only
	case there == nil || there.UpdatedAt > f.now:
		c.records.schedules = append(c.records.schedules, here)
	default:
		merged := *here
		merged.LastAt, merged.LastJobID, merged.LastError = there.LastAt, there.LastJobID, there.LastError
		merged.Fired, merged.Skipped, merged.MissedCount = there.Fired, there.Skipped, there.MissedCount
		c.putSchedule(&merged)
	}
}

func (c *carried) putSchedule(s *fsm.Cron) {
	if c.m.CarryCron(s) {
		c.counts.schedules++
	} else {
		c.records.schedules = append(c.records.schedules, s)
	}
}

// settingsOf keeps the settings of v that differ from the document's, or carries them over.
func (c *carried) settingsOf(v *fsm.View, f fork) {
	v.Queues(func(here *fsm.QueueSettings) bool {
		switch there := c.doc.Queue(here.Name); {
		case there != nil && here.SameAs(there):
		case f.ours && c.m.CarrySettings(here):
			c.counts.settings++
		default:
			c.records.settings = append(c.records.settings, here)
		}
		return true
	})
}

// tokens brings the changes of access tokens of v into the adopted state.
func (c *carried) tokens(v *fsm.View, f fork) {
	if c.m.Level() < fsm.Level10 {
		return
	}
	c.doc.Tokens("", func(there *fsm.Token) bool {
		here := v.Token(there.ID)
		switch {
		case here == nil && (f.ours || there.CreatedAt <= f.now):
			op := &fsmpb.RevokeToken{Id: there.ID}
			c.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: op}})
			c.counts.tokens++
		case here != nil && here.ExpiresAt != 0 && (there.ExpiresAt == 0 || here.ExpiresAt < there.ExpiresAt):
			t := *there
			t.ExpiresAt = here.ExpiresAt
			c.m.CarryToken(&t)
			c.counts.tokens++
		}
		return true
	})
	v.Tokens("", func(here *fsm.Token) bool {
		if c.doc.Token(here.ID) == nil && (f.ours || here.CreatedAt > f.now) && c.m.CarryToken(here) {
			c.counts.tokens++
		}
		return true
	})
}

// hooks brings the changes of hooks of v, and the events in their outboxes, into the adopted
// state.
func (c *carried) hooks(v *fsm.View, f fork) {
	if c.m.Level() < fsm.Level11 {
		return
	}
	c.doc.Hooks(func(there *fsm.Hook) bool {
		if v.Hook(there.Name) == nil && (f.ours || there.CreatedAt <= f.now) {
			op := &fsmpb.DeleteHook{Name: there.Name}
			c.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteHook{DeleteHook: op}})
			c.counts.hooks++
		}
		return true
	})
	v.Hooks(func(here *fsm.Hook) bool {
		there := c.doc.Hook(here.Name)
		changed := there == nil || here.UpdatedAt > there.UpdatedAt
		if changed && (f.ours || here.UpdatedAt > f.now) && c.m.CarryHook(here) {
			c.counts.hooks++
		}
		v.HookEvents(here.Name, fsm.HookEventID{}, func(e *fsm.HookEvent) bool {
			if f.ours || e.ID.LSN.Compare(f.lsn) > 0 {
				c.m.CarryHookEvent(e)
			}
			return true
		})
		return true
	})
}
