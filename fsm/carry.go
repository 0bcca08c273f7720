package fsm

import (
	"bytes"
	"strings"
)

// The methods in this file bring records of another state into this one, with all of their
// fields. A cluster uses them on the state of a document that it adopts, before this state
// replaces that of its nodes. Log entries never use them.

// CarryCron adds a schedule, or replaces the one of its name. It returns false if there
// are too many schedules.
func (m *Machine) CarryCron(c *Cron) bool {
	old := m.cron(c.Name)
	if old == nil && m.crons.Len() >= cronsMax {
		return false
	}
	m.storeCron(old, c)
	return true
}

// CarrySettings replaces the settings of a type. It returns false if there are too many
// types with settings.
func (m *Machine) CarrySettings(s *QueueSettings) bool {
	if _, found := m.settings.Get(s); !found && m.settings.Len() >= queuesMax {
		return false
	}
	c := *s
	q := m.queue(s.Name)
	c.Name = q.name
	m.useSettings(q, &c)
	return true
}

// CarryRequest remembers a request as one that took effect in the last entry. It returns
// false if the request key is in use, or if the limit of requests leaves no room.
func (m *Machine) CarryRequest(r *RequestRecord) bool {
	if m.byKey[r.Key] != nil {
		return false
	}
	c := *r
	c.LSN = m.meta.LSN
	m.addRequest(&c)
	m.boundRequests()
	return m.byKey[c.Key] == &c
}

// CarryToken adds a token, or replaces the one of its id. It returns false if there are
// too many tokens.
func (m *Machine) CarryToken(t *Token) bool {
	old := m.tokenIDs[t.ID]
	if old == nil && m.tokens.Len() >= TokensMax {
		return false
	}
	m.putToken(old, t)
	return true
}

// CarryHook adds a hook with an empty outbox, or replaces the one of its name, which keeps its
// outbox. It returns false if there are too many hooks.
func (m *Machine) CarryHook(h *Hook) bool {
	own := *h
	own.Pending, own.Bytes = 0, 0
	total, n := own.Buffer(), 1
	m.hooks.Scan(func(o *Hook) bool {
		if o.Name == h.Name {
			own.Pending, own.Bytes = o.Pending, o.Bytes
			return true
		}
		total, n = total+o.Buffer(), n+1
		return true
	})
	if n > HooksMax || total > HookBuffersMax {
		return false
	}
	m.hooks.Set(&own)
	return true
}

// CarryHookEvent adds an event to the outbox of a hook. It returns false if the hook is gone,
// if it has the event, or if its outbox has no room.
func (m *Machine) CarryHookEvent(e *HookEvent) bool {
	h := m.hook(e.Hook)
	if _, found := m.outbox.Get(e); h == nil || found || h.Bytes+e.size() > h.Buffer() {
		return false
	}
	own := *h
	m.store(&own, e)
	m.hooks.Set(&own)
	return true
}

// Request returns the record of a request key, or nil. It reads live state, as Job does.
func (m *Machine) Request(key string) *RequestRecord { return m.byKey[key] }

// Removed returns the fields that are known of a job that retention has removed: id,
// token, status and end. It returns nil for the record of a caller's request.
func (r *RequestRecord) Removed() *Job {
	if !strings.HasPrefix(r.Key, removedPrefix) || len(r.Items) != 1 {
		return nil
	}
	return jobOfRecord(r)
}

// SameAs reports whether two schedules have the same definition. Times and counts of
// their fires do not matter.
func (c *Cron) SameAs(o *Cron) bool {
	if c.Spec != o.Spec || c.TimeZone != o.TimeZone || c.Overlap != o.Overlap || c.Missed != o.Missed || c.Paused != o.Paused {
		return false
	}
	a, err := c.Job.MarshalVT()
	if err != nil {
		return false
	}
	b, err := o.Job.MarshalVT()
	return err == nil && bytes.Equal(a, b)
}

// SameAs reports whether two types have the same settings. The level of the rate does not
// matter.
func (s *QueueSettings) SameAs(o *QueueSettings) bool {
	a, b := *s, *o
	a.Level, a.LevelAt, b.Level, b.LevelAt = 0, 0, 0, 0
	return a == b
}
