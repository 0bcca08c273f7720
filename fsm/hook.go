package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// Hook is a webhook: the events that an operator wants, and where they are sent. The state has
// an outbox for each hook (outbox.go); package api/hooks delivers them. A *Hook is
// immutable.
type Hook struct {
	Name  string
	URL   string
	Kinds HookKinds
	Types []string // globs of the types of jobs (MatchGlob); none: all
	HookSecret
	OldSecret HookSecret // signs as well, until OldUntil
	OldUntil  int64      // ms; 0: there is no old secret
	Plain     bool       // http:// is allowed
	Paused    bool       // events are kept and not sent

	// Thresholds of the rules, and limits. 0: the default, which package api/hooks has,
	// and HookBufferDefault.
	OldestAgeMs    int64
	FailurePercent int64
	DeadGrew       int64
	LagMs          int64
	BufferBytes    int64
	RetryForMs     int64

	MadeBy       string // id of the principal that put it last
	CreatedAt    int64  // ms
	UpdatedAt    int64
	Delivered    uint64 // events
	Failed       uint64 // events that were given up
	Dropped      uint64 // events for which the outbox had no room
	DeliveredAt  int64  // ms; 0: nothing was delivered yet
	FailingSince int64  // ms; 0: the last attempts did not all fail
	LastError    string // while FailingSince is not 0
	Alerts       []Alert

	Pending int   // events in the outbox; derived
	Bytes   int64 // of the outbox; derived
}

// HookSecret is the key of a hook's signatures.
type HookSecret struct {
	Key   string // sealed if KeyID is not ""
	KeyID string // of the node-side key
}

// Alert is an alert of a hook that fires.
type Alert struct {
	Kind    HookKind
	Subject string // what it is about, such as a type
	Since   int64  // ms
	ID      HookEventID
}

// HookEventID is the identity of an event: the LSN of its log entry, and its number among the
// events of that entry, from 1. It is the same for all hooks and for every delivery.
type HookEventID struct {
	LSN LSN
	N   uint32
}

// Compare returns -1, 0 or +1 if id is before, equal to or after o.
func (id HookEventID) Compare(o HookEventID) int {
	return cmp.Or(id.LSN.Compare(o.LSN), cmp.Compare(id.N, o.N))
}

// String returns the id as the header webhook-id has it.
func (id HookEventID) String() string {
	return "evt_" + id.LSN.String() + "." + strconv.FormatUint(uint64(id.N), 10)
}

// HookEvent is an event in the outbox of a hook. It is immutable.
type HookEvent struct {
	Hook     string
	ID       HookEventID
	At       int64 // ms
	Kind     HookKind
	Subject  string // type of the job, or the worker, node, batch or schedule
	JobID    string
	Attempts int32
	Text     string      // error or reason; cut
	Resolved bool        // of an alert: it has ended
	Alert    HookEventID // of an alert: id of the event that announced it; zero for other events
	Since    int64       // of an alert: when it began, ms
	Actor    string      // as in Event
}

// HookKind is the kind of an event for hooks.
type HookKind uint8

// The kinds of events. Snapshots have these numbers: they must not change.
const (
	HookJobDead HookKind = iota + 1
	HookJobCompleted
	HookJobFailed // an attempt failed, and there will be another one
	HookJobCancelled
	HookBatchDone
	HookScheduleMissed
	HookWorkerGone
	HookLeader         // another leader
	HookDiverged       // nodes have another state than most
	HookBucketAway     // an alert of the log, as the next two
	HookBucketDamaged  //
	HookWritesRefused  //
	HookQueueStuck     // a rule, as the next three
	HookQueueFailing   //
	HookQueueDead      //
	HookBucketLag      //
	HookTested         // every hook wants it
	numHookKinds       = iota + 1
	firstRule, endRule = HookQueueStuck, HookTested
)

var hookKindNames = [numHookKinds]string{
	"", "job.dead", "job.completed", "job.failed", "job.cancelled", "batch.done", "schedule.missed", "worker.gone",
	"cluster.leader", "cluster.diverged", "bucket.away", "bucket.damaged", "writes.refused",
	"queue.stuck", "queue.failing", "queue.dead", "bucket.lag", "hook.test",
}

// String returns the kind's name as used on the wire.
func (k HookKind) String() string { return nameOf(hookKindNames[:], k) }

// IsRule reports whether events of the kind come from SetAlert.
func (k HookKind) IsRule() bool { return k >= firstRule && k < endRule }

// HookKinds is a set of kinds: bit i is the kind i.
type HookKinds uint64

// AllHookKinds has the kinds that a hook can want.
const AllHookKinds = HookKinds(1)<<HookTested - 2

// Has reports whether the set has a kind.
func (s HookKinds) Has(k HookKind) bool { return s&(1<<k) != 0 }

// With returns the set with one more kind.
func (s HookKinds) With(k HookKind) HookKinds { return s | 1<<k }

// Names returns the names of the kinds, in the order of their numbers.
func (s HookKinds) Names() (names []string) {
	for k := HookJobDead; k < HookTested; k++ {
		if s.Has(k) {
			names = append(names, k.String())
		}
	}
	return names
}

// HookKindsMatching returns the kinds whose names match a glob.
func HookKindsMatching(glob string) (s HookKinds) {
	for k := HookJobDead; k < HookTested; k++ {
		if MatchGlob(glob, k.String()) {
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

// The limits of hooks. They bound the size of the state, and the work of an entry that deletes
// a hook.
const (
	HooksMax          = 32
	HookNameMax       = 128
	HookURLMax        = 2048
	HookTypesMax      = 64
	HookBufferMin     = 4 << 10
	HookBufferDefault = 2 << 20
	HookBufferMax     = 8 << 20
	HookBuffersMax    = 64 << 20 // of all hooks together
	HookAlertsMax     = 256
	hookTextMax       = 256
	hookSecretMax     = 512
	hookEventBytes    = 192 // of an event without its texts
)

// Buffer returns the size of the outbox, in bytes.
func (h *Hook) Buffer() int64 { return cmp.Or(h.BufferBytes, HookBufferDefault) }

// Wants reports whether the hook wants events of a kind about a subject.
func (h *Hook) Wants(k HookKind, subject string) bool {
	if !h.Kinds.Has(k) {
		return false
	}
	return len(h.Types) == 0 || !k.aboutType() ||
		slices.ContainsFunc(h.Types, func(glob string) bool { return MatchGlob(glob, subject) })
}

// aboutType reports whether the subject is a type of jobs.
func (k HookKind) aboutType() bool {
	return k <= HookJobCancelled || k >= HookQueueStuck && k <= HookQueueDead
}

// FindAlert returns the place of an alert among those that fire, and whether it is there.
func (h *Hook) FindAlert(k HookKind, subject string) (at int, found bool) {
	return slices.BinarySearchFunc(h.Alerts, Alert{Kind: k, Subject: subject}, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
}

func (e *HookEvent) size() int64 {
	return int64(hookEventBytes + len(e.Hook) + len(e.Subject) + len(e.JobID) + len(e.Text) + len(e.Actor))
}

func byHook(a, b *Hook) bool { return a.Name < b.Name }

func byHookEvent(a, b *HookEvent) bool {
	if a.Hook != b.Hook {
		return a.Hook < b.Hook
	}
	return a.ID.Compare(b.ID) < 0
}

var errHookValue = errors.New("a hook has an invalid name, URL, kind, type, secret or limit")

// checkHook refuses hooks that are not valid in any state.
func checkHook(h *fsmpb.Hook) error {
	if h == nil || h.Name == "" || len(h.Name) > HookNameMax || h.Url == "" || len(h.Url) > HookURLMax || HookKinds(h.Kinds)&^AllHookKinds != 0 {
		return errHookValue
	}
	for _, text := range append([]string{h.Name, h.Url, h.KeyId, h.OldKeyId, h.MadeBy, h.LastError}, h.Types...) {
		if !utf8.ValidString(text) || len(text) > HookURLMax {
			return errHookValue
		}
	}
	numbers := min(h.OldestAgeMs, h.FailurePercent, h.DeadGrew, h.LagMs, h.BufferBytes, h.RetryForMs)
	switch {
	case len(h.Types) > HookTypesMax, len(h.Alerts) > HookAlertsMax, max(len(h.Secret), len(h.OldSecret)) > hookSecretMax:
		return errHookValue
	case numbers < 0, h.BufferBytes > HookBufferMax, h.BufferBytes != 0 && h.BufferBytes < HookBufferMin:
		return errHookValue
	}
	for i, a := range h.Alerts {
		known := a.GetKind() > 0 && a.GetKind() < numHookKinds && utf8.ValidString(a.GetSubject()) && len(a.GetSubject()) <= hookTextMax
		if !known || i > 0 && !alertBefore(h.Alerts[i-1], a) {
			return errHookValue
		}
	}
	return nil
}

func alertBefore(a, b *fsmpb.Alert) bool {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject)) < 0
}

// checkNewHook refuses hooks that a PutHook cannot have.
func checkNewHook(h *fsmpb.Hook) error {
	set := h.GetCreatedMs() != 0 || h.GetUpdatedMs() != 0 || len(h.GetOldSecret()) > 0 || h.GetOldKeyId() != "" || h.GetOldUntilMs() != 0 ||
		h.GetDelivered() != 0 || h.GetFailed() != 0 || h.GetDropped() != 0 || h.GetDeliveredMs() != 0 || h.GetFailingSinceMs() != 0 ||
		h.GetLastError() != "" || len(h.GetAlerts()) > 0
	if set || h.GetKinds() == 0 {
		return errHookValue
	}
	return checkHook(h)
}

// checkAlert refuses alerts that no rule of a hook makes.
func checkAlert(a *fsmpb.SetAlert) error {
	known := HookKind(min(a.GetKind(), numHookKinds)).IsRule() && utf8.ValidString(a.GetSubject()) && utf8.ValidString(a.GetText())
	return need(known, errNewValue)
}

func hookToPB(h *Hook) *fsmpb.Hook {
	p := &fsmpb.Hook{
		Name: h.Name, Url: h.URL, Kinds: uint64(h.Kinds), Types: h.Types, Secret: []byte(h.Key), KeyId: h.KeyID,
		OldSecret: []byte(h.OldSecret.Key), OldKeyId: h.OldSecret.KeyID, OldUntilMs: h.OldUntil, Plain: h.Plain, Paused: h.Paused,
		OldestAgeMs: h.OldestAgeMs, FailurePercent: h.FailurePercent, DeadGrew: h.DeadGrew, LagMs: h.LagMs,
		BufferBytes: h.BufferBytes, RetryForMs: h.RetryForMs, MadeBy: h.MadeBy, CreatedMs: h.CreatedAt, UpdatedMs: h.UpdatedAt,
		Delivered: h.Delivered, Failed: h.Failed, Dropped: h.Dropped, DeliveredMs: h.DeliveredAt, FailingSinceMs: h.FailingSince,
		LastError: h.LastError,
	}
	for _, a := range h.Alerts {
		p.Alerts = append(p.Alerts, &fsmpb.Alert{
			Kind: uint32(a.Kind), Subject: a.Subject, SinceMs: a.Since, Term: a.ID.LSN.Term, Index: a.ID.LSN.Index, N: a.ID.N,
		})
	}
	return p
}

// hookFromPB copies the texts, which would keep a log entry in memory.
func hookFromPB(p *fsmpb.Hook) *Hook {
	h := &Hook{
		Name: strings.Clone(p.Name), URL: strings.Clone(p.Url), Kinds: HookKinds(p.Kinds), Types: cloneStrings(p.Types),
		HookSecret: HookSecret{string(p.Secret), strings.Clone(p.KeyId)},
		OldSecret:  HookSecret{string(p.OldSecret), strings.Clone(p.OldKeyId)}, OldUntil: p.OldUntilMs, Plain: p.Plain, Paused: p.Paused,
		OldestAgeMs: p.OldestAgeMs, FailurePercent: p.FailurePercent, DeadGrew: p.DeadGrew, LagMs: p.LagMs,
		BufferBytes: p.BufferBytes, RetryForMs: p.RetryForMs, MadeBy: strings.Clone(p.MadeBy), CreatedAt: p.CreatedMs, UpdatedAt: p.UpdatedMs,
		Delivered: p.Delivered, Failed: p.Failed, Dropped: p.Dropped, DeliveredAt: p.DeliveredMs, FailingSince: p.FailingSinceMs,
		LastError: strings.Clone(p.LastError),
	}
	for _, a := range p.Alerts {
		h.Alerts = append(h.Alerts, Alert{
			Kind: narrow[HookKind](a.GetKind()), Subject: strings.Clone(a.GetSubject()), Since: a.GetSinceMs(),
			ID: HookEventID{LSN{a.GetTerm(), a.GetIndex()}, a.GetN()},
		})
	}
	return h
}

func hookEventToPB(e *HookEvent) *fsmpb.HookEvent {
	return &fsmpb.HookEvent{
		Hook: e.Hook, Term: e.ID.LSN.Term, Index: e.ID.LSN.Index, N: e.ID.N, AtMs: e.At, Kind: uint32(e.Kind),
		Subject: e.Subject, JobId: e.JobID, Attempts: e.Attempts, Text: e.Text, Resolved: e.Resolved,
		AlertTerm: e.Alert.LSN.Term, AlertIndex: e.Alert.LSN.Index, AlertN: e.Alert.N, SinceMs: e.Since, Actor: e.Actor,
	}
}

func hookEventFromPB(p *fsmpb.HookEvent) *HookEvent {
	return &HookEvent{
		Hook: p.Hook, ID: HookEventID{LSN{p.Term, p.Index}, p.N}, At: p.AtMs, Kind: narrow[HookKind](p.Kind),
		Subject: p.Subject, JobID: p.JobId, Attempts: p.Attempts, Text: p.Text, Resolved: p.Resolved,
		Alert: HookEventID{LSN{p.AlertTerm, p.AlertIndex}, p.AlertN}, Since: p.SinceMs, Actor: p.Actor,
	}
}

// Hooks calls fn for the hooks, in the order of names, until fn returns false.
func (v *View) Hooks(fn func(*Hook) bool) { v.hooks.Scan(fn) }

// HookCount returns the number of hooks.
func (v *View) HookCount() int { return v.hooks.Len() }

// Hook returns the hook of that name, or nil.
func (v *View) Hook(name string) *Hook {
	h, _ := v.hooks.Get(&Hook{Name: name})
	return h
}

// HookEvents calls fn for the events in the outbox of a hook that are after an id, oldest
// first, until fn returns false.
func (v *View) HookEvents(name string, after HookEventID, fn func(*HookEvent) bool) {
	v.outbox.Ascend(&HookEvent{Hook: name, ID: after}, func(e *HookEvent) bool {
		return e.Hook == name && (e.ID == after || fn(e))
	})
}

// HookEvent returns an event in an outbox, or nil.
func (v *View) HookEvent(name string, id HookEventID) *HookEvent {
	e, _ := v.outbox.Get(&HookEvent{Hook: name, ID: id})
	return e
}

// AddHook adds a hook, with an empty outbox.
func (b *Builder) AddHook(h *Hook) error {
	if b.m.hook(h.Name) != nil {
		return fmt.Errorf("%w: hook %q: %w", ErrState, h.Name, errTwice)
	}
	if err := checkHook(hookToPB(h)); err != nil {
		return fmt.Errorf("%w: hook %q: %w", ErrState, h.Name, err)
	}
	own := *h
	own.Pending, own.Bytes = 0, 0
	b.m.hooks.Set(&own)
	return nil
}

// AddHookEvent adds an event to the outbox of a hook that was added before.
func (b *Builder) AddHookEvent(e *HookEvent) error {
	h := b.m.hook(e.Hook)
	_, twice := b.m.outbox.Get(e)
	switch {
	case twice:
		return fmt.Errorf("%w: event %s of hook %q: %w", ErrState, e.ID, e.Hook, errTwice)
	case h == nil, e.Kind == 0, e.Kind >= numHookKinds, max(len(e.Subject), len(e.Text), len(e.JobID)) > hookTextMax, len(e.Actor) > ActorMax:
		return fmt.Errorf("%w: event %s of hook %q: %w", ErrState, e.ID, e.Hook, errRange)
	}
	own := *h
	b.m.store(&own, e)
	b.m.hooks.Set(&own)
	return nil
}
