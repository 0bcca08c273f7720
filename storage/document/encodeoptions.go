package document

import (
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// options appends the options of the producer.
func (a *appender) options(o *fsm.Options) {
	a.backoff(o.Backoff)
	a.nonzero("timeoutMs", o.TimeoutMs)
	a.optional("group", o.Group)
	a.texts("tags", o.Tags)
	a.optional("uniqueKey", o.Unique.Key)
	a.word("uniqueScope", o.Unique.Scope.String(), uint8(o.Unique.Scope))
	a.nonzero("uniqueMs", o.Unique.PeriodMs)
	a.texts("after", o.After)
	a.word("afterFailure", o.AfterFailure.String(), uint8(o.AfterFailure))
	a.optional("batchId", o.Batch)
	a.optional("cron", o.Cron)
	a.headers(o.Headers)
	a.optional("quotaAccount", o.Account)
}

func (a *appender) backoff(b fsm.Backoff) {
	if b == (fsm.Backoff{}) {
		return
	}
	a.key("backoff")
	a.open('{')
	a.word("kind", b.Kind.String(), uint8(b.Kind))
	a.nonzero("baseMs", b.BaseMs)
	a.nonzero("capMs", b.CapMs)
	a.nonzero("jitter", int64(b.Jitter))
	a.close('}')
}

// details appends the details of the job so far.
func (a *appender) details(d *fsm.Details) {
	a.texts("waitsFor", d.Waits)
	a.nonzero("attemptTimeoutMs", d.TimeoutMs)
	a.nonzero("cancelAt", d.CancelAt)
	if d.Progress != (fsm.Progress{}) || d.ProgressAt != 0 {
		a.key("progress")
		a.open('{')
		a.plain("percent", int64(d.Progress.Percent))
		a.optional("message", d.Progress.Message)
		a.nonzero("at", d.ProgressAt)
		a.close('}')
	}
	a.history(d.History)
	a.optional("attemptLog", d.Log)
	a.natural("claimOwner", d.Owner)
	a.nonzero("givenBack", int64(d.GivenBack))
}

func (a *appender) history(attempts []fsm.Attempt) {
	if len(attempts) == 0 {
		return
	}
	a.key("history")
	a.open('[')
	for i := range attempts {
		t := &attempts[i]
		a.next()
		a.open('{')
		a.plain("number", int64(t.Number))
		a.integer("startedAt", t.StartedAt)
		a.integer("endedAt", t.EndedAt)
		if t.Worker != fsm.Anonymous {
			a.text("workerId", t.Worker)
		}
		a.optional("error", t.Error)
		a.end("end", t.End)
		a.close('}')
	}
	a.close(']')
}

// template appends a job that is not enqueued yet; nothing if n is nil.
func (a *appender) template(name string, n *fsmpb.NewJob) {
	if n == nil {
		return
	}
	a.key(name)
	a.open('{')
	a.optional("id", n.Id)
	a.optional("type", n.Type)
	a.value("payload", n.Payload)
	a.nonzero("priority", int64(n.Priority))
	a.nonzero("runAt", n.RunAtMs)
	if n.MaxAttempts != nil {
		a.plain("maxAttempts", int64(*n.MaxAttempts))
	}
	a.nonzero("leaseMs", n.LeaseMs)
	o := optionsOf(n)
	a.options(&o)
	a.nonzero("quotaJobs", n.Quota.GetMaxJobs())
	a.nonzero("quotaBytes", n.Quota.GetMaxBytes())
	a.close('}')
}

func optionsOf(n *fsmpb.NewJob) fsm.Options {
	return fsm.Options{
		Backoff: fsm.Backoff{
			Kind:   fsm.BackoffKind(n.Backoff.GetKind()),
			BaseMs: n.Backoff.GetBaseMs(), CapMs: n.Backoff.GetCapMs(),
			Jitter: uint8(n.Backoff.GetJitterPercent()),
		},
		TimeoutMs: n.TimeoutMs,
		Group:     n.Group,
		Tags:      n.Tags,
		Unique: fsm.Unique{
			Key: n.Unique.GetKey(), Scope: fsm.UniqueScope(n.Unique.GetScope()), PeriodMs: n.Unique.GetPeriodMs(),
		},
		After:        n.After,
		AfterFailure: fsm.AfterFailure(n.AfterFailure),
		Batch:        n.Batch,
		Headers:      headersOf(n),
		Account:      n.Quota.GetAccount(),
	}
}

// templateOf is the inverse of optionsOf. A zero value is absent.
func templateOf(o *fsm.Options) *fsmpb.NewJob {
	n := &fsmpb.NewJob{
		TimeoutMs: o.TimeoutMs, Group: o.Group, Tags: o.Tags, After: o.After,
		AfterFailure: uint32(o.AfterFailure), Batch: o.Batch,
	}
	for _, h := range o.Headers {
		n.Headers = append(n.Headers, &fsmpb.Header{Name: h.Name, Value: h.Value})
	}
	if b := o.Backoff; b != (fsm.Backoff{}) {
		n.Backoff = &fsmpb.Backoff{Kind: uint32(b.Kind), BaseMs: b.BaseMs, CapMs: b.CapMs, JitterPercent: uint32(b.Jitter)}
	}
	if u := o.Unique; u != (fsm.Unique{}) {
		n.Unique = &fsmpb.Unique{Key: u.Key, Scope: uint32(u.Scope), PeriodMs: u.PeriodMs}
	}
	return n
}

func headersOf(n *fsmpb.NewJob) (out []fsm.Header) {
	for _, h := range n.Headers {
		out = append(out, fsm.Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return out
}

// headers appends the headers of a job; nothing if there are none.
func (a *appender) headers(headers []fsm.Header) {
	if len(headers) == 0 {
		return
	}
	a.key("headers")
	a.open('[')
	for _, h := range headers {
		a.next()
		a.open('{')
		a.text("name", h.Name)
		a.optional("value", h.Value)
		a.close('}')
	}
	a.close(']')
}

func (a *appender) end(name string, e fsm.End) {
	known := ""
	if int(e) < len(ends) {
		known = ends[e]
	}
	a.word(name, known, uint8(e))
}
