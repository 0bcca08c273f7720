package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// Hook is a webhook: the events that an operator wants, and where they are sent. The state has
// an outbox for each hook; package api/hooks delivers the events. A *Hook is immutable.
type Hook struct {
	*fsmpb.Hook
	Pending int   // events in the outbox
	Bytes   int64 // of the outbox
}

// Alert is an alert of a hook that fires.
type Alert = fsmpb.Alert

// AlertID returns the id of the event that announced an alert.
func AlertID(a *Alert) EventID { return EventID{a.GetTerm(), a.GetIndex(), a.GetN()} }

// EventID is the identity of an event: the LSN of its log entry, and its number among the
// events of that entry, from 1. It is the same for all hooks and for every delivery.
type EventID struct {
	Term, Index uint64 // the LSN
	N           uint32
}

// Compare returns -1, 0 or +1 if id is before, equal to or after o.
func (id EventID) Compare(o EventID) int {
	return cmp.Or(cmp.Compare(id.Term, o.Term), cmp.Compare(id.Index, o.Index), cmp.Compare(id.N, o.N))
}

// String returns the id as the header webhook-id has it.
func (id EventID) String() string {
	return fmt.Sprintf("evt_%d-%d.%d", id.Term, id.Index, id.N)
}

// Event is an event in the outbox of a hook. It is immutable.
type Event = fsmpb.HookEvent

// News returns an event that is in no outbox yet.
func News(k Kind, subject, text string) *Event {
	return &Event{Kind: uint32(k), Subject: subject, Text: text}
}

// IDOf returns the id of an event.
func IDOf(e *Event) EventID { return EventID{e.Term, e.Index, e.N} }

// Kind is the kind of an event for hooks.
type Kind uint8

// The kinds of events. Snapshots have these numbers: they must not change.
const (
	JobDead Kind = iota + 1
	JobCompleted
	JobFailed // an attempt failed, and there will be another one
	JobCancelled
	BatchDone
	ScheduleMissed
	WorkerGone
	Leader        // another leader
	Diverged      // nodes have another state than most
	BucketAway    // an alert of the log, as the next two
	BucketDamaged //
	WritesRefused //
	QueueStuck    // a rule, as the next three
	QueueFailing  //
	QueueDead     //
	BucketLag     //
	Tested        // every hook wants it
	JobExpired
	JobRemoved         // retention removed a dead job
	numKinds           = iota + 1
	firstRule, endRule = QueueStuck, Tested
)

var kindNames = [numKinds]string{
	"", "job.dead", "job.completed", "job.failed", "job.cancelled", "batch.done", "schedule.missed", "worker.gone",
	"cluster.leader", "cluster.diverged", "bucket.away", "bucket.damaged", "writes.refused",
	"queue.stuck", "queue.failing", "queue.dead", "bucket.lag", "hook.test", "job.expired", "job.removed",
}

// String returns the kind's name as used on the wire.
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return ""
}

// IsRule reports whether events of the kind come from SetAlert.
func (k Kind) IsRule() bool { return k >= firstRule && k < endRule }

// Kinds is a set of kinds: bit i is the kind i.
type Kinds uint64

// AllKinds has the kinds that a hook can want.
const AllKinds = (Kinds(1)<<numKinds - 2) &^ (1 << Tested)

// Has reports whether the set has a kind.
func (s Kinds) Has(k Kind) bool { return s&(1<<k) != 0 }

// With returns the set with one more kind.
func (s Kinds) With(k Kind) Kinds { return s | 1<<k }

// Names returns the names of the kinds, in the order of their numbers.
func (s Kinds) Names() (names []string) {
	for k := JobDead; k < numKinds; k++ {
		if s.Has(k) {
			names = append(names, k.String())
		}
	}
	return names
}

// KindsMatching returns the kinds whose names match a glob.
func KindsMatching(glob string) (s Kinds) {
	for k := JobDead; k < numKinds; k++ {
		if AllKinds.Has(k) && MatchGlob(glob, k.String()) {
			s = s.With(k)
		}
	}
	return s
}

// MatchGlob reports whether text matches a glob: * stands for any bytes, and ? for one.
func MatchGlob(glob, text string) bool {
	star, mark := -1, 0
	g, t := 0, 0
	for t < len(text) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, t
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == text[t]):
			g++
			t++
		case star >= 0:
			mark++
			g, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// ActorMax bounds the bytes of an actor.
const ActorMax = 128

// The limits of hooks. They bound the size of the state, and the work of an entry that deletes
// a hook.
const (
	HooksMax       = 32
	NameMax        = 128
	URLMax         = 2048
	TypesMax       = 64
	BufferMin      = 4 << 10
	BufferDefault  = 2 << 20
	BufferMax      = 8 << 20
	BuffersMax     = 64 << 20 // of all hooks together
	AlertsMax      = 256
	TextMax        = 256 // bytes of a text of an event
	hookSecretMax  = 512
	hookEventBytes = 192 // of an event without its texts
)

// Buffer returns the size of the outbox, in bytes.
func (h *Hook) Buffer() int64 { return cmp.Or(h.BufferBytes, BufferDefault) }

// Wants reports whether the hook wants events of a kind about a subject.
func (h *Hook) Wants(k Kind, subject string) bool {
	if !Kinds(h.Kinds).Has(k) {
		return false
	}
	return len(h.Types) == 0 || !k.aboutType() ||
		slices.ContainsFunc(h.Types, func(glob string) bool { return MatchGlob(glob, subject) })
}

// aboutType reports whether the subject is a type of jobs.
func (k Kind) aboutType() bool {
	return k <= JobCancelled || k == JobExpired || k == JobRemoved || k >= QueueStuck && k <= QueueDead
}

// FindAlert returns the place of an alert among those that fire, and whether it is there.
func (h *Hook) FindAlert(k Kind, subject string) (at int, found bool) {
	return slices.BinarySearchFunc(h.Alerts, &Alert{Kind: uint32(k), Subject: subject}, compareAlerts)
}

func compareAlerts(a, b *Alert) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
}

// key returns what a hook is found by.
func key(name string) *Hook { return &Hook{Hook: &fsmpb.Hook{Name: name}} }

// eventKey returns what an event is found by.
func eventKey(hook string, id EventID) *Event {
	return &Event{Hook: hook, Term: id.Term, Index: id.Index, N: id.N}
}

// changed returns a copy whose record may be changed.
func (h *Hook) changed() *Hook {
	c := *h
	c.Hook = fsmpb.Copy(h.Hook)
	return &c
}

func eventSize(e *Event) int64 {
	return int64(hookEventBytes + len(e.Hook) + len(e.Subject) + len(e.JobId) + len(e.Text) + len(e.Actor))
}

func byHook(a, b *Hook) bool { return a.Name < b.Name }

func byHookAndID(a, b *Event) bool {
	if a.Hook != b.Hook {
		return a.Hook < b.Hook
	}
	return IDOf(a).Compare(IDOf(b)) < 0
}

// ErrValue is the error for a hook that no state has.
var ErrValue = errors.New("a hook has an invalid name, URL, kind, type, secret or limit")

// Check refuses hooks that are not valid in any state.
func Check(h *fsmpb.Hook) error {
	if h == nil || h.Name == "" || len(h.Name) > NameMax || h.Url == "" || len(h.Url) > URLMax || Kinds(h.Kinds)&^AllKinds != 0 {
		return ErrValue
	}
	for _, text := range append([]string{h.Name, h.Url, h.KeyId, h.OldKeyId, h.MadeBy, h.LastError}, h.Types...) {
		if !utf8.ValidString(text) || len(text) > URLMax {
			return ErrValue
		}
	}
	numbers := min(h.OldestAgeMs, h.FailurePercent, h.DeadGrew, h.LagMs, h.BufferBytes, h.RetryForMs)
	switch {
	case len(h.Types) > TypesMax, len(h.Alerts) > AlertsMax, max(len(h.Secret), len(h.OldSecret)) > hookSecretMax:
		return ErrValue
	case numbers < 0, h.BufferBytes > BufferMax, h.BufferBytes != 0 && h.BufferBytes < BufferMin:
		return ErrValue
	}
	for i, a := range h.Alerts {
		known := a.GetKind() > 0 && a.GetKind() < numKinds && utf8.ValidString(a.GetSubject()) && len(a.GetSubject()) <= TextMax
		if !known || i > 0 && compareAlerts(h.Alerts[i-1], a) >= 0 {
			return ErrValue
		}
	}
	return nil
}

// CheckNew refuses hooks that a PutHook cannot have.
func CheckNew(h *fsmpb.Hook) error {
	set := h.GetCreatedMs() != 0 || h.GetUpdatedMs() != 0 || len(h.GetOldSecret()) > 0 || h.GetOldKeyId() != "" || h.GetOldUntilMs() != 0 ||
		h.GetDelivered() != 0 || h.GetFailed() != 0 || h.GetDropped() != 0 || h.GetDeliveredMs() != 0 || h.GetFailingSinceMs() != 0 ||
		h.GetLastError() != "" || len(h.GetAlerts()) > 0
	if set || h.GetKinds() == 0 {
		return ErrValue
	}
	return Check(h)
}

// ErrAlert is the error for an alert that no rule of a hook makes.
var ErrAlert = errors.New("an alert has an unknown kind or invalid text; upgrade this node")

// CheckAlert refuses alerts that no rule of a hook makes.
func CheckAlert(a *fsmpb.SetAlert) error {
	if !Kind(min(a.GetKind(), numKinds)).IsRule() || !utf8.ValidString(a.GetSubject()) || !utf8.ValidString(a.GetText()) {
		return ErrAlert
	}
	return nil
}

// kindOf returns the kind of a record, which may be unknown.
func kindOf(k uint32) Kind { return Kind(min(k, numKinds)) }
