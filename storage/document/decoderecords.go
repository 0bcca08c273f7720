package document

import (
	"osqueue/fsm"
)

// beside returns a reader for one element of a list other than the lists of jobs; nil if
// name is not such a list.
func (d *decoder) beside(name string) func() error {
	switch name {
	case "queues":
		unset := fsm.QueueSettings{MaxAttempts: fsm.Unset, RetainMs: fsm.Unset, RetainCount: fsm.Unset}
		return record(d, &d.doc.Queues, unset, d.queueMember)
	case "turns":
		return record(d, &d.doc.Turns, fsm.Turn{}, turnMember)
	case "crons":
		return record(d, &d.doc.Crons, fsm.Cron{}, d.cronMember)
	case "batches":
		return record(d, &d.doc.Batches, fsm.JobBatch{}, d.batchMember)
	case "holds":
		return record(d, &d.doc.Holds, fsm.Hold{}, holdMember)
	case "requests":
		return record(d, &d.doc.Requests, fsm.RequestRecord{}, d.requestMember)
	case "tokens":
		return record(d, &d.doc.Tokens, fsm.Token{}, tokenMember)
	case "figures":
		return record(d, &d.doc.Figures, Figures{}, figuresMember)
	case "hooks":
		return record(d, &d.doc.Hooks, fsm.Hook{}, d.hookField)
	case "hookEvents":
		return record(d, &d.doc.HookEvents, fsm.HookEvent{}, hookEventMember)
	case "workers":
		return d.worker
	case "claims":
		return d.claim
	}
	return nil
}

func (d *decoder) queueMember(q *fsm.QueueSettings, name string) any {
	switch name {
	case "type":
		return &q.Name
	case "paused":
		return &q.Paused
	case "maxRunning":
		return &q.MaxRunning
	case "maxRunningPerGroup":
		return &q.MaxRunningPerGroup
	case "rateMilli":
		return &q.RateMilli
	case "burst":
		return &q.Burst
	case "leaseMs":
		return &q.LeaseMs
	case "timeoutMs":
		return &q.TimeoutMs
	case "maxAttempts":
		return &q.MaxAttempts
	case "backoff":
		return d.backoff(&q.Backoff)
	case "pauseReason":
		return &q.Pause.Reason
	case "pausedBy":
		return &q.Pause.By
	case "pausedSince":
		return &q.Pause.Since
	case "pausedUntil":
		return &q.Pause.Until
	}
	return boundMember(q, name)
}

// boundMember returns the destination of a field that limits the size of a type, or of the
// state of its rate limit.
func boundMember(q *fsm.QueueSettings, name string) any {
	switch name {
	case "retainMs":
		return &q.RetainMs
	case "retainCount":
		return &q.RetainCount
	case "maxJobs":
		return &q.MaxJobs
	case "maxBytes":
		return &q.MaxBytes
	case "maxPayload":
		return &q.MaxPayload
	case "level":
		return &q.Level
	case "levelAt":
		return &q.LevelAt
	}
	return nil
}

func turnMember(t *fsm.Turn, name string) any {
	switch name {
	case "type":
		return &t.Type
	case "group":
		return &t.Group
	case "turn":
		return &t.Turn
	}
	return nil
}

func (d *decoder) cronMember(c *fsm.Cron, name string) any {
	switch name {
	case "name":
		return &c.Name
	case "spec":
		return &c.Spec
	case "timeZone":
		return &c.TimeZone
	case "job":
		return d.template(&c.Job)
	case "overlap":
		return wordOf("overlap", &c.Overlap)
	case "missed":
		return wordOf("missed", &c.Missed)
	case "paused":
		return &c.Paused
	case "nextAt":
		return &c.NextAt
	}
	return cronPast(c, name)
}

// cronPast returns the destination of a field that records the past of a schedule.
func cronPast(c *fsm.Cron, name string) any {
	switch name {
	case "createdAt":
		return &c.CreatedAt
	case "updatedAt":
		return &c.UpdatedAt
	case "lastAt":
		return &c.LastAt
	case "lastJobId":
		return &c.LastJobID
	case "lastError":
		return &c.LastError
	case "fired":
		return &c.Fired
	case "skipped":
		return &c.Skipped
	case "missedCount":
		return &c.MissedCount
	}
	return nil
}

func (d *decoder) batchMember(b *fsm.JobBatch, name string) any {
	switch name {
	case "id":
		return &b.ID
	case "createdAt":
		return &b.CreatedAt
	case "total":
		return &b.Total
	case "completed":
		return &b.Completed
	case "dead":
		return &b.Dead
	case "cancelled":
		return &b.Cancelled
	case "endedAt":
		return &b.EndedAt
	case "callback":
		return d.template(&b.Callback)
	case "callbackOn":
		return wordOf("callbackOn", &b.CallbackOn)
	case "called":
		return &b.Called
	case "account":
		return &b.Account
	}
	return nil
}

func holdMember(h *fsm.Hold, name string) any {
	switch name {
	case "type":
		return &h.Type
	case "key":
		return &h.Key
	case "seq":
		return &h.Seq
	case "job":
		return &h.JobID
	case "until":
		return &h.Until
	}
	return nil
}

func (d *decoder) requestMember(r *fsm.RequestRecord, name string) any {
	switch name {
	case "key":
		return &r.Key
	case "fingerprint" + base64Suffix:
		return coded{&r.Fingerprint}
	case "at":
		return &r.At
	case "term":
		return &r.LSN.Term
	case "index":
		return &r.LSN.Index
	case "code":
		return wordOf("the code", &r.Code)
	case "items":
		return listPart(d.reader, &r.Items, itemMember)
	case "count":
		return &r.Count
	case "next":
		return d.objectPart(func(name string) any { return placeMember(&r.Next, name) })
	case "type":
		return &r.Type
	case "group":
		return &r.Group
	}
	return nil
}

func itemMember(t *fsm.RequestItem, name string) any {
	switch name {
	case "job":
		return &t.JobID
	case "token":
		return &t.Token
	case "status":
		return wordOf("the status", &t.Status)
	case "code":
		return wordOf("the code", &t.Code)
	}
	return nil
}

func placeMember(p *fsm.Place, name string) any {
	switch name {
	case "status":
		return wordOf("the status", &p.Status)
	case "seq":
		return &p.Seq
	}
	return nil
}

func tokenMember(t *fsm.Token, name string) any {
	switch name {
	case "id":
		return &t.ID
	case "hash" + base64Suffix:
		return coded{&t.Hash}
	case "name":
		return &t.Name
	case "role":
		return wordOf("role", &t.Role)
	case "types":
		return &t.Types
	case "groups":
		return &t.Groups
	case "programs":
		return &t.Programs
	case "family":
		return &t.Family
	case "tenant":
		return &t.Tenant
	case "madeBy":
		return &t.MadeBy
	}
	return tokenNumber(t, name)
}

// tokenNumber returns the destination of a limit or a time of a token.
func tokenNumber(t *fsm.Token, name string) any {
	switch name {
	case "rateMilli":
		return &t.RateMilli
	case "burst":
		return &t.Burst
	case "maxPayload":
		return &t.MaxPayload
	case "maxJobs":
		return &t.MaxJobs
	case "maxBytes":
		return &t.MaxBytes
	case "expiresAt":
		return &t.ExpiresAt
	case "createdAt":
		return &t.CreatedAt
	case "usedAt":
		return &t.UsedAt
	}
	return nil
}
