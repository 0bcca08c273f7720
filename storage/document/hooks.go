package document

import "osqueue/fsm"

// hook appends a hook, with its secrets as the state has them.
func (a *appender) hook(h *fsm.Hook) {
	a.text("name", h.Name)
	a.text("url", h.URL)
	a.unsigned("kinds", uint64(h.Kinds))
	a.texts("types", h.Types)
	a.packed("secret", h.Key)
	a.optional("keyId", h.KeyID)
	a.packed("oldSecret", h.OldSecret.Key)
	a.optional("oldKeyId", h.OldSecret.KeyID)
	a.nonzero("oldUntil", h.OldUntil)
	a.flag("plain", h.Plain)
	a.flag("paused", h.Paused)
	a.nonzero("oldestAgeMs", h.OldestAgeMs)
	a.nonzero("failurePercent", h.FailurePercent)
	a.nonzero("deadGrew", h.DeadGrew)
	a.nonzero("lagMs", h.LagMs)
	a.nonzero("bufferBytes", h.BufferBytes)
	a.nonzero("retryForMs", h.RetryForMs)
	a.optional("madeBy", h.MadeBy)
	a.integer("createdAt", h.CreatedAt)
	a.integer("updatedAt", h.UpdatedAt)
	a.natural("delivered", h.Delivered)
	a.natural("failed", h.Failed)
	a.natural("dropped", h.Dropped)
	a.nonzero("deliveredAt", h.DeliveredAt)
	a.nonzero("failingSince", h.FailingSince)
	a.optional("lastError", h.LastError)
	if len(h.Alerts) > 0 {
		a.alerts(h.Alerts)
	}
}

func (a *appender) alerts(alerts []fsm.Alert) {
	a.key("alerts")
	a.open('[')
	for i := range alerts {
		t := &alerts[i]
		a.next()
		a.open('{')
		a.word("kind", t.Kind.String(), uint8(t.Kind))
		a.optional("subject", t.Subject)
		a.nonzero("since", t.Since)
		a.eventID("", t.ID)
		a.close('}')
	}
	a.close(']')
}

// eventID appends an id as three fields; nothing for no id.
func (a *appender) eventID(prefix string, id fsm.HookEventID) {
	term, index, n := idNames(prefix)
	a.natural(term, id.LSN.Term)
	a.natural(index, id.LSN.Index)
	a.natural(n, uint64(id.N))
}

// idNames returns the names of the fields of an id.
func idNames(prefix string) (term, index, n string) {
	if prefix == "" {
		return "term", "index", "n"
	}
	return prefix + "Term", prefix + "Index", prefix + "N"
}

func (a *appender) hookEvent(e *fsm.HookEvent) {
	a.text("hook", e.Hook)
	a.eventID("", e.ID)
	a.integer("at", e.At)
	a.word("kind", e.Kind.String(), uint8(e.Kind))
	a.optional("subject", e.Subject)
	a.optional("job", e.JobID)
	a.nonzero("attempts", int64(e.Attempts))
	a.optional("text", e.Text)
	a.flag("resolved", e.Resolved)
	a.eventID("alert", e.Alert)
	a.nonzero("since", e.Since)
}

func hookMember(h *fsm.Hook, name string) any {
	switch name {
	case "name":
		return &h.Name
	case "url":
		return &h.URL
	case "kinds":
		return (*uint64)(&h.Kinds)
	case "types":
		return &h.Types
	case "secret" + base64Suffix:
		return coded{&h.Key}
	case "keyId":
		return &h.KeyID
	case "oldSecret" + base64Suffix:
		return coded{&h.OldSecret.Key}
	case "oldKeyId":
		return &h.OldSecret.KeyID
	case "oldUntil":
		return &h.OldUntil
	case "plain":
		return &h.Plain
	case "paused":
		return &h.Paused
	case "madeBy":
		return &h.MadeBy
	}
	return hookNumber(h, name)
}

// hookNumber returns the destination of a limit of a hook.
func hookNumber(h *fsm.Hook, name string) any {
	switch name {
	case "oldestAgeMs":
		return &h.OldestAgeMs
	case "failurePercent":
		return &h.FailurePercent
	case "deadGrew":
		return &h.DeadGrew
	case "lagMs":
		return &h.LagMs
	case "bufferBytes":
		return &h.BufferBytes
	case "retryForMs":
		return &h.RetryForMs
	}
	return hookPast(h, name)
}

// hookPast returns the destination of a field that records the past of a hook.
func hookPast(h *fsm.Hook, name string) any {
	switch name {
	case "createdAt":
		return &h.CreatedAt
	case "updatedAt":
		return &h.UpdatedAt
	case "delivered":
		return &h.Delivered
	case "failed":
		return &h.Failed
	case "dropped":
		return &h.Dropped
	case "deliveredAt":
		return &h.DeliveredAt
	case "failingSince":
		return &h.FailingSince
	case "lastError":
		return &h.LastError
	}
	return nil
}

// hookField returns the destination of any field of a hook.
func (d *decoder) hookField(h *fsm.Hook, name string) any {
	if name == "alerts" {
		return listPart(d.reader, &h.Alerts, alertMember)
	}
	return hookMember(h, name)
}

func alertMember(a *fsm.Alert, name string) any {
	switch name {
	case "kind":
		return wordOf("the kind of an alert", &a.Kind)
	case "subject":
		return &a.Subject
	case "since":
		return &a.Since
	}
	return idMember(&a.ID, "", name)
}

// idMember returns the destination of a field of an id.
func idMember(id *fsm.HookEventID, prefix, name string) any {
	switch term, index, n := idNames(prefix); name {
	case term:
		return &id.LSN.Term
	case index:
		return &id.LSN.Index
	case n:
		return &id.N
	}
	return nil
}

func hookEventMember(e *fsm.HookEvent, name string) any {
	switch name {
	case "hook":
		return &e.Hook
	case "at":
		return &e.At
	case "kind":
		return wordOf("the kind of an event", &e.Kind)
	case "subject":
		return &e.Subject
	case "job":
		return &e.JobID
	case "attempts":
		return &e.Attempts
	case "text":
		return &e.Text
	case "resolved":
		return &e.Resolved
	case "since":
		return &e.Since
	}
	if dst := idMember(&e.Alert, "alert", name); dst != nil {
		return dst
	}
	return idMember(&e.ID, "", name)
}
