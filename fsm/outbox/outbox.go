// Package outbox has the webhooks of the state, and the events that are to be sent to them.
package outbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
)

// State has the hooks and their outboxes. A copy is frozen.
type State struct {
	hooks  *btree.Tree[*Hook]  // by name
	events *btree.Tree[*Event] // by hook, then id
}

// Freeze returns a copy, in O(1).
func (s *State) Freeze() State { return State{s.hooks.Copy(), s.events.Copy()} }

// Hooks calls fn for the hooks, in the order of names, until fn returns false.
func (s *State) Hooks(fn func(*Hook) bool) { s.hooks.Scan(fn) }

// HookCount returns the number of hooks.
func (s *State) HookCount() int { return s.hooks.Len() }

// Hook returns the hook of that name, or nil.
func (s *State) Hook(name string) *Hook { return s.hooks.Find(key(name)) }

// HookEvents iterates over the events in the outbox of a hook that are after an id, oldest first.
func (s *State) HookEvents(name string, after EventID) iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		s.events.Ascend(eventKey(name, after), func(e *Event) bool {
			return e.Hook == name && (IDOf(e) == after || yield(e))
		})
	}
}

// AllHookEvents calls fn for all events in outboxes, by hook, oldest first, until fn returns
// false.
func (s *State) AllHookEvents(fn func(*Event) bool) { s.events.Scan(fn) }

// HookEventCount returns the number of all events in outboxes.
func (s *State) HookEventCount() int { return s.events.Len() }

// HookEvent returns an event in an outbox, or nil.
func (s *State) HookEvent(name string, id EventID) *Event {
	return s.events.Find(eventKey(name, id))
}

// Outboxes is a State that changes. DESIGN.md of package fsm, section 21, has the rules.
type Outboxes struct {
	State
	number uint32 // of the last event of the entry
}

// New returns a state without hooks.
func New() Outboxes { return Outboxes{State: State{btree.New(byHook), btree.New(byHookAndID)}} }

// Begin begins a log entry.
func (o *Outboxes) Begin() { o.number = 0 }

// Stamp has what the events of a mutation have in common.
type Stamp struct {
	Term, Index uint64 // the LSN of the entry
	Now         int64  // ms
	Actor       string
}

// The reasons of refusals.
var (
	ErrNoHook  = errors.New("no such hook")
	ErrTooMany = errors.New("too many hooks or alerts, or too large outboxes")
	ErrNoNews  = errors.New("the alert fires already, or does not fire")
)

// Put makes or replaces a hook. A replaced hook keeps its outbox, its counters, and the alerts
// whose rules are unchanged.
func (o *Outboxes) Put(op *fsmpb.PutHook, now int64) error {
	h := &Hook{Hook: fsmpb.Clone(op.Hook)}
	h.CreatedMs, h.UpdatedMs = now, now
	old := o.Hook(h.Name)
	if old == nil && len(h.Secret) == 0 {
		return ErrNoHook // the hook whose secret it would keep is gone
	}
	total := h.Buffer()
	for other := range o.hooks.Scan {
		if other.Name != h.Name {
			total += other.Buffer()
		}
	}
	if old == nil && o.hooks.Len() >= HooksMax || total > BuffersMax {
		return ErrTooMany
	}
	if old != nil {
		h.inherit(old, op.OverlapMs, now)
	}
	o.hooks.Set(h)
	return nil
}

// inherit gives h what it keeps of the hook that it replaces.
func (h *Hook) inherit(old *Hook, overlapMs, now int64) {
	h.OldSecret, h.OldKeyId, h.OldUntilMs = old.OldSecret, old.OldKeyId, old.OldUntilMs
	other := !bytes.Equal(h.Secret, old.Secret) || h.KeyId != old.KeyId
	switch {
	case len(h.Secret) == 0:
		h.Secret, h.KeyId = old.Secret, old.KeyId
	case other && overlapMs > 0:
		h.OldSecret, h.OldKeyId, h.OldUntilMs = old.Secret, old.KeyId, now+min(overlapMs, math.MaxInt64-now)
	case other:
		h.OldSecret, h.OldKeyId, h.OldUntilMs = nil, "", 0
	}
	h.CreatedMs, h.Delivered, h.Failed, h.Dropped = old.CreatedMs, old.Delivered, old.Failed, old.Dropped
	h.DeliveredMs, h.FailingSinceMs, h.LastError = old.DeliveredMs, old.FailingSinceMs, old.LastError
	h.Pending, h.Bytes = old.Pending, old.Bytes
	for _, a := range old.Alerts {
		if h.Wants(Kind(a.Kind), a.Subject) {
			h.Alerts = append(h.Alerts, a)
		}
	}
}

// Delete removes a hook and its outbox, in time proportional to the outbox, which
// BufferMax bounds.
func (o *Outboxes) Delete(name string) error {
	h := o.Hook(name)
	if h == nil {
		return ErrNoHook
	}
	for e := o.oldest(name); e != nil; e = o.oldest(name) {
		o.events.Delete(e)
	}
	o.hooks.Delete(h)
	return nil
}

// oldest returns the oldest event in the outbox of a hook, or nil.
func (o *Outboxes) oldest(name string) *Event {
	for e := range o.HookEvents(name, EventID{}) {
		return e
	}
	return nil
}

// Test makes an event for one hook, and returns its number.
func (o *Outboxes) Test(name string, at Stamp) (number uint64, err error) {
	h := o.Hook(name)
	if h == nil {
		return 0, ErrNoHook
	}
	o.number++
	o.send(h, News(Tested, h.Name, "a test"), at)
	return uint64(o.number), nil
}

// Report removes events that were delivered or given up, and records how the hook fares.
// Events that are not in the outbox are skipped. removed is the number of events removed.
func (o *Outboxes) Report(op *fsmpb.ReportHook, now int64) (removed uint64, err error) {
	old := o.Hook(op.Name)
	if old == nil {
		return 0, ErrNoHook
	}
	h := old.changed()
	delivered, failed := o.takeAll(h, op.Delivered), o.takeAll(h, op.Failed)
	h.Delivered += delivered
	h.Failed += failed
	if len(op.Delivered) > 0 {
		h.DeliveredMs, h.FailingSinceMs, h.LastError = now, 0, ""
	}
	if op.Error != "" {
		h.FailingSinceMs = cmp.Or(h.FailingSinceMs, now)
		h.LastError = cut(op.Error)
	}
	if h.OldUntilMs != 0 && h.OldUntilMs <= now {
		h.OldSecret, h.OldKeyId, h.OldUntilMs = nil, "", 0
	}
	o.hooks.Set(h)
	return delivered + failed, nil
}

func (o *Outboxes) takeAll(h *Hook, ids []*fsmpb.HookEventId) (n uint64) {
	for _, id := range ids {
		if e := o.HookEvent(h.Name, EventID{id.GetTerm(), id.GetIndex(), id.GetN()}); e != nil {
			o.take(h, e)
			n++
		}
	}
	return n
}

// take removes an event from the outbox of h, a copy that is not in the state yet.
func (o *Outboxes) take(h *Hook, e *Event) {
	o.events.Delete(e)
	h.Pending--
	h.Bytes -= eventSize(e)
}

// SetAlert makes an event if an alert begins or ends. So a leader that repeats what its
// predecessor has reported changes nothing.
func (o *Outboxes) SetAlert(op *fsmpb.SetAlert, at Stamp) error {
	h := o.Hook(op.Hook)
	if h == nil {
		return ErrNoHook
	}
	kind, subject := kindOf(op.Kind), cut(op.Subject)
	i, fires := h.FindAlert(kind, subject)
	switch {
	case fires == op.Firing:
		return ErrNoNews
	case op.Firing && !h.Wants(kind, subject):
		return ErrNoHook
	case op.Firing && len(h.Alerts) >= AlertsMax:
		return ErrTooMany
	}
	o.number++
	alert := &Alert{Kind: uint32(kind), Subject: subject, SinceMs: at.Now, Term: at.Term, Index: at.Index, N: o.number}
	changed := h.changed()
	changed.Alerts = slices.Clone(h.Alerts)
	if op.Firing {
		changed.Alerts = slices.Insert(changed.Alerts, i, alert)
	} else {
		alert = changed.Alerts[i]
		changed.Alerts = slices.Delete(changed.Alerts, i, i+1)
	}
	news := News(kind, alert.Subject, cut(op.Text))
	news.Resolved, news.SinceMs = !op.Firing, alert.SinceMs
	news.AlertTerm, news.AlertIndex, news.AlertN = alert.Term, alert.Index, alert.N
	o.send(changed, news, at)
	return nil
}

// Tell puts copies of an event into the outboxes of all hooks that want it.
func (o *Outboxes) Tell(e *Event, at Stamp) {
	if o.hooks.Len() == 0 {
		return
	}
	o.number++
	e.Subject, e.Text, e.JobId = cut(e.Subject), cut(e.Text), cut(e.JobId)
	for _, h := range slices.Collect(o.hooks.Scan) { // the tree must not change under Scan
		if h.Wants(Kind(e.Kind), e.Subject) {
			o.send(h, fsmpb.Clone(e), at)
		}
	}
}

// send puts the event with the number o.number into the outbox of a hook. It drops the oldest
// ones if the outbox is full. It replaces h.
func (o *Outboxes) send(h *Hook, e *Event, at Stamp) {
	own, dropped := *h, uint64(0)
	e.Hook, e.Term, e.Index, e.N, e.AtMs, e.Actor = h.Name, at.Term, at.Index, o.number, at.Now, at.Actor
	o.store(&own, e)
	for own.Bytes > own.Buffer() {
		o.take(&own, o.oldest(h.Name))
		dropped++
	}
	if dropped > 0 {
		own.Hook = fsmpb.Copy(h.Hook)
		own.Dropped += dropped
	}
	o.hooks.Set(&own)
}

// store puts an event into the outbox of h, a copy that is not in the state yet.
func (o *Outboxes) store(h *Hook, e *Event) {
	o.events.Set(e)
	h.Pending++
	h.Bytes += eventSize(e)
}

// cut returns a copy of the beginning of a text, at most TextMax bytes, which ends with a whole rune.
func cut(s string) string {
	n := min(len(s), TextMax)
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// The reasons why a stored hook or event is refused.
var (
	errTwice = errors.New("it occurs twice")
	errRange = errors.New("a value is unknown or out of range")
)

// Add adds a hook of a stored state, with an empty outbox.
func (o *Outboxes) Add(h *fsmpb.Hook) error {
	err := Check(h)
	if o.Hook(h.GetName()) != nil {
		err = errTwice
	}
	if err != nil {
		return fmt.Errorf("hook %q: %w", h.GetName(), err)
	}
	o.hooks.Set(&Hook{Hook: h})
	return nil
}

// AddEvent adds an event to the outbox of a hook that was added before.
func (o *Outboxes) AddEvent(e *Event) (err error) {
	h := o.Hook(e.Hook)
	switch {
	case o.HookEvent(e.Hook, IDOf(e)) != nil:
		err = errTwice
	case h == nil, e.Kind == 0, e.Kind >= numKinds, max(len(e.Subject), len(e.Text), len(e.JobId)) > TextMax, len(e.Actor) > ActorMax:
		err = errRange
	}
	if err != nil {
		return fmt.Errorf("event %s of hook %q: %w", IDOf(e), e.Hook, err)
	}
	own := *h
	o.store(&own, e)
	o.hooks.Set(&own)
	return nil
}
