package document

import (
	"math"
	"slices"

	"osqueue/fsm"
)

// beside appends the lists other than the lists of jobs.
func (a *appender) beside(v *fsm.View) {
	records(a, "workers", v.Workers, a.worker)
	records(a, "claims", v.Claims, a.claim)
	records(a, "queues", v.Queues, a.queue)
	records(a, "turns", v.Turns, a.turn)
	records(a, "crons", func(fn func(*fsm.Cron) bool) { v.Crons("", fn) }, a.cron)
	records(a, "batches", func(fn func(*fsm.JobBatch) bool) { v.Batches("", fn) }, a.batch)
	records(a, "holds", v.Holds, a.hold)
	records(a, "requests", v.Requests, a.request)
	if v.TokenCount() > 0 {
		records(a, "tokens", func(fn func(*fsm.Token) bool) { v.Tokens("", fn) }, a.token)
	}
	records(a, "figures", v.Figures, a.figures)
	if v.HookCount() > 0 {
		records(a, "hooks", v.Hooks, a.hook)
		records(a, "hookEvents", v.AllHookEvents, a.hookEvent)
	}
}

// Records are the records of a cluster that are kept as a copy.
type Records struct {
	Settings  []*fsm.QueueSettings
	Schedules []*fsm.Cron
	Tokens    []*fsm.Token
	Hooks     []*fsm.Hook
	Requests  []*fsm.RequestRecord
	Deleted   []string // kind and name of records that the cluster has deleted
}

// Len returns the number of records.
func (r *Records) Len() int {
	return len(r.Settings) + len(r.Schedules) + len(r.Tokens) + len(r.Hooks) + len(r.Requests) + len(r.Deleted)
}

// EncodeRecords returns a document that only has records and a text for people. Decode reads it
// as a legacy document without jobs.
func EncodeRecords(r *Records, reason string) []byte {
	a := appender{limit: math.MaxInt}
	a.open('{')
	a.text("reason", reason)
	a.key("jobs")
	a.open('[')
	a.close(']')
	records(&a, "queues", slices.Values(r.Settings), a.queue)
	records(&a, "crons", slices.Values(r.Schedules), a.cron)
	records(&a, "tokens", slices.Values(r.Tokens), a.token)
	records(&a, "hooks", slices.Values(r.Hooks), a.hook)
	records(&a, "requests", slices.Values(r.Requests), a.request)
	a.texts("deleted", r.Deleted)
	a.close('}')
	return a.buf
}

func records[T any](a *appender, name string, scan func(func(T) bool), members func(T)) {
	if a.full() {
		return
	}
	a.key(name)
	a.open('[')
	scan(func(r T) bool {
		a.next()
		a.open('{')
		members(r)
		a.close('}')
		return !a.full()
	})
	a.close(']')
}

func (a *appender) queue(q *fsm.QueueSettings) {
	a.text("type", q.Name)
	a.flag("paused", q.Paused)
	a.optional("pauseReason", q.Pause.Reason)
	a.optional("pausedBy", q.Pause.By)
	a.nonzero("pausedSince", q.Pause.Since)
	a.nonzero("pausedUntil", q.Pause.Until)
	a.nonzero("maxRunning", q.MaxRunning)
	a.nonzero("maxRunningPerGroup", q.MaxRunningPerGroup)
	a.nonzero("rateMilli", q.RateMilli)
	a.nonzero("burst", q.Burst)
	a.nonzero("leaseMs", q.LeaseMs)
	a.nonzero("timeoutMs", q.TimeoutMs)
	a.settable("maxAttempts", q.MaxAttempts)
	a.backoff(q.Backoff)
	a.settable("retainMs", q.RetainMs)
	a.settable("retainCount", q.RetainCount)
	a.nonzero("maxJobs", q.MaxJobs)
	a.nonzero("maxBytes", q.MaxBytes)
	a.nonzero("maxPayload", q.MaxPayload)
	a.nonzero("level", q.Level)
	a.nonzero("levelAt", q.LevelAt)
}

// settable is like integer, but appends nothing if the value is unset.
func (a *appender) settable(name string, value int64) {
	if value != fsm.Unset {
		a.integer(name, value)
	}
}

func (a *appender) turn(t *fsm.Turn) {
	a.optional("type", t.Type)
	a.optional("group", t.Group)
	a.unsigned("turn", t.Turn)
}

func (a *appender) cron(c *fsm.Cron) {
	a.text("name", c.Name)
	a.text("spec", c.Spec)
	a.optional("timeZone", c.TimeZone)
	a.template("job", c.Job)
	a.word("overlap", c.Overlap.String(), uint8(c.Overlap))
	a.word("missed", c.Missed.String(), uint8(c.Missed))
	a.flag("paused", c.Paused)
	a.nonzero("nextAt", c.NextAt)
	a.integer("createdAt", c.CreatedAt)
	a.integer("updatedAt", c.UpdatedAt)
	a.nonzero("lastAt", c.LastAt)
	a.optional("lastJobId", c.LastJobID)
	a.optional("lastError", c.LastError)
	a.unsigned("fired", c.Fired)
	a.unsigned("skipped", c.Skipped)
	a.unsigned("missedCount", c.MissedCount)
}

func (a *appender) batch(b *fsm.JobBatch) {
	a.text("id", b.ID)
	a.integer("createdAt", b.CreatedAt)
	a.unsigned("total", b.Total)
	a.unsigned("completed", b.Completed)
	a.unsigned("dead", b.Dead)
	a.unsigned("cancelled", b.Cancelled)
	a.nonzero("endedAt", b.EndedAt)
	a.template("callback", b.Callback)
	a.word("callbackOn", b.CallbackOn.String(), uint8(b.CallbackOn))
	a.flag("called", b.Called)
	a.optional("account", b.Account)
}

func (a *appender) hold(h *fsm.Hold) {
	a.optional("type", h.Type)
	a.text("key", h.Key)
	a.unsigned("seq", h.Seq)
	a.text("job", h.JobID)
	a.integer("until", h.Until)
}

func (a *appender) request(r *fsm.RequestRecord) {
	a.text("key", r.Key)
	if r.Fingerprint != "" {
		a.base64("fingerprint", []byte(r.Fingerprint))
	}
	a.integer("at", r.At)
	a.unsigned("term", r.LSN.Term)
	a.unsigned("index", r.LSN.Index)
	a.word("code", r.Code.String(), uint8(r.Code))
	if len(r.Items) > 0 {
		a.items(r.Items)
	}
	a.natural("count", r.Count)
	if r.Next != (fsm.Place{}) {
		a.key("next")
		a.open('{')
		a.word("status", r.Next.Status.String(), uint8(r.Next.Status))
		a.natural("seq", r.Next.Seq)
		a.close('}')
	}
	a.optional("type", r.Type)
	a.optional("group", r.Group)
}

func (a *appender) items(items []fsm.RequestItem) {
	a.key("items")
	a.open('[')
	for i := range items {
		t := &items[i]
		a.next()
		a.open('{')
		a.optional("job", t.JobID)
		a.natural("token", t.Token)
		a.word("status", t.Status.String(), uint8(t.Status))
		a.word("code", t.Code.String(), uint8(t.Code))
		a.close('}')
	}
	a.close(']')
}

// token appends a token, which has the hash of its secret only.
func (a *appender) token(t *fsm.Token) {
	a.text("id", t.ID)
	a.base64("hash", []byte(t.Hash))
	a.optional("name", t.Name)
	a.word("role", t.Role.String(), uint8(t.Role))
	a.texts("types", t.Types)
	a.texts("groups", t.Groups)
	a.flag("programs", t.Programs)
	a.nonzero("rateMilli", t.RateMilli)
	a.nonzero("burst", t.Burst)
	a.nonzero("maxPayload", t.MaxPayload)
	a.nonzero("maxJobs", t.MaxJobs)
	a.nonzero("maxBytes", t.MaxBytes)
	a.nonzero("expiresAt", t.ExpiresAt)
	a.optional("family", t.Family)
	a.optional("tenant", t.Tenant)
	a.optional("madeBy", t.MadeBy)
	a.integer("createdAt", t.CreatedAt)
	a.nonzero("usedAt", t.UsedAt)
}
