package leader

import (
	"osqueue/fsm"
	"osqueue/fsm/outbox"
	"osqueue/storage/document"
)

// Records other than jobs are not merged: the adopted state keeps those of the document. A copy
// under conflicts/ gets the records of this cluster that the document lacks or defines differently,
// and the names of records that this cluster deleted or revoked after the fork.

// rest collects the records of v that the adopted state does not have.
func (c *carried) rest(v *fsm.View, f fork) {
	r := &c.records
	v.Queues(func(here *fsm.QueueSettings) bool {
		if there := c.doc.Queue(here.Name); there == nil || !here.SameAs(there) {
			r.Settings = append(r.Settings, here)
		}
		return true
	})
	v.Crons("", func(here *fsm.Cron) bool {
		if there := c.doc.Cron(here.Name); there == nil || !here.SameAs(there) {
			r.Schedules = append(r.Schedules, here)
		}
		return true
	})
	v.Tokens("", func(here *fsm.Token) bool {
		if there := c.doc.Token(here.ID); there == nil || here.ExpiresAt != there.ExpiresAt {
			r.Tokens = append(r.Tokens, here)
		}
		return true
	})
	v.Hooks(func(here *outbox.Hook) bool {
		if there := c.doc.Hook(here.Name); there == nil || here.UpdatedAt != there.UpdatedAt {
			r.Hooks = append(r.Hooks, here)
		}
		return true
	})
	v.Requests(func(here *fsm.RequestRecord) bool {
		if f.since(here) && fsm.RemovedJob(here) == nil && c.m.Request(here.Key) == nil {
			r.Requests = append(r.Requests, here)
		}
		return true
	})
	c.deleted(v, f, r)
}

// deleted collects the names of the document's records that this cluster has deleted: they are
// older than the fork, and v lacks them.
func (c *carried) deleted(v *fsm.View, f fork, r *document.Records) {
	c.doc.Crons("", func(there *fsm.Cron) bool {
		if v.Cron(there.Name) == nil && max(there.CreatedAt, there.UpdatedAt) <= f.now {
			r.Deleted = append(r.Deleted, "schedule "+there.Name)
		}
		return true
	})
	c.doc.Tokens("", func(there *fsm.Token) bool {
		if v.Token(there.ID) == nil && there.CreatedAt <= f.now {
			r.Deleted = append(r.Deleted, "token "+there.ID)
		}
		return true
	})
	c.doc.Hooks(func(there *outbox.Hook) bool {
		if v.Hook(there.Name) == nil && max(there.CreatedAt, there.UpdatedAt) <= f.now {
			r.Deleted = append(r.Deleted, "hook "+there.Name)
		}
		return true
	})
}

// since reports whether a record of this cluster is younger than the fork.
func (f fork) since(r *fsm.RequestRecord) bool {
	return fsm.LSN{Term: r.Term, Index: r.Index}.Compare(f.lsn) > 0
}

// findRepeated records the jobs of requests that both clusters have answered. The client has the
// later answer, so the document's counts, and one request must not run twice.
func (c *carried) findRepeated(v *fsm.View, f fork) {
	v.Requests(func(r *fsm.RequestRecord) bool {
		if f.since(r) && fsm.RemovedJob(r) == nil && c.m.Request(r.Key) != nil {
			for _, i := range r.Items {
				c.repeated[i.JobId] = struct{}{}
			}
		}
		return true
	})
}

// endRemoved ends the jobs of the document that ended here and that retention has removed here.
// Their results are gone.
func (c *carried) endRemoved(v *fsm.View, f fork) {
	v.Requests(func(r *fsm.RequestRecord) bool {
		if j := fsm.RemovedJob(r); j != nil && f.since(r) {
			c.end(j, f)
		}
		return true
	})
}
