package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

// Queues iterates over the job types that have jobs or settings, in an order: v1.SortType (the default, also ""),
// v1.SortOldestAt or v1.SortMostUnclaimed. If the queue changes between two pages, a type may occur twice or not at
// all, except by type. An error is the last item of the sequence.
func (c *Admin) Queues(ctx context.Context, sort string) iter.Seq2[v1.Queue, error] {
	list := call{op: "list queues", path: v1.PathQueues, query: url.Values{}}
	if sort != "" && sort != v1.SortType {
		list.query.Set(v1.ParamSort, sort)
	}
	return pages(ctx, c.caller, list, func(p v1.QueueList) ([]v1.Queue, string) { return p.Queues, p.NextCursor })
}

// Queue returns the counters and settings of one type. The type "" stands for jobs
// without a type.
func (c *Admin) Queue(ctx context.Context, jobType string) (v1.Queue, error) {
	return sendRead[v1.Queue](ctx, c.caller, call{op: "get queue", prefix: v1.PathQueues, name: v1.QueueName(jobType)})
}

// SetQueue changes the settings that the patch sets and keeps all others. It
// returns the queue after the change.
func (c *Admin) SetQueue(ctx context.Context, jobType string, patch QueuePatch) (v1.Queue, error) {
	return sendWrite[v1.Queue](ctx, c.caller, call{op: "set queue", method: http.MethodPatch, prefix: v1.PathQueues, name: v1.QueueName(jobType), in: &patch})
}

// Pause describes a pause of a type. The zero value is a pause without a reason and
// without an end.
type Pause struct {
	Reason string // at most 512 bytes
	// Until is the time, and For the duration on the server's clock, after which the
	// queue ends the pause by itself. Set at most one of them.
	Until time.Time
	For   time.Duration
}

// PauseQueue stops claims of jobs of the type until p ends it, or ResumeQueue. Running jobs continue. If the type
// is paused already, its pause gets the reason and the end of p, and keeps its beginning.
func (c *Admin) PauseQueue(ctx context.Context, jobType string, p Pause) (v1.Queue, error) {
	w := call{op: "pause queue", prefix: v1.PathQueues, name: v1.QueueName(jobType), action: v1.ActionPause}
	if p != (Pause{}) {
		w.in = &v1.NewPause{Reason: p.Reason, ForMs: inMilliseconds(p.For), Until: unixMs(p.Until)}
	}
	return sendWrite[v1.Queue](ctx, c.caller, w)
}

// ResumeQueue ends the pause of a type.
func (c *Admin) ResumeQueue(ctx context.Context, jobType string) (v1.Queue, error) {
	return sendWrite[v1.Queue](ctx, c.caller, call{op: "resume queue", prefix: v1.PathQueues, name: v1.QueueName(jobType), action: v1.ActionResume})
}

// RemoveQueue resets all settings of the type to their defaults and ends its pause.
// The jobs of the type stay.
func (c *Admin) RemoveQueue(ctx context.Context, jobType string) error {
	return sendDone(ctx, c.caller, call{op: "remove queue", method: http.MethodDelete, prefix: v1.PathQueues, name: v1.QueueName(jobType)})
}

// Setting is the change of one setting. The zero value keeps the setting; SetTo
// assigns a value, and Default resets it.
type Setting[T any] struct {
	set     bool
	reverts bool
	value   T
}

// SetTo returns a change that assigns v to a setting.
func SetTo[T any](v T) Setting[T] { return Setting[T]{set: true, value: v} }

// Default returns a change that resets a setting to its default.
func Default[T any]() Setting[T] { return Setting[T]{set: true, reverts: true} }

// MarshalJSON implements json.Marshaler: null resets a setting.
func (s Setting[T]) MarshalJSON() ([]byte, error) {
	if s.reverts {
		return []byte("null"), nil
	}
	switch v := any(s.value).(type) {
	case time.Duration:
		return jsonv2.Marshal(inMilliseconds(v))
	case Backoff:
		return jsonv2.Marshal(v.wire())
	}
	return jsonv2.Marshal(s.value)
}

// UnmarshalJSON implements json.Unmarshaler: it reads what MarshalJSON makes.
func (s *Setting[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Default[T]()
		return nil
	}
	*s = Setting[T]{set: true}
	switch v := any(&s.value).(type) {
	case *time.Duration:
		var ms int64
		err := jsonv2.Unmarshal(text, &ms)
		*v = milliseconds(ms)
		return err
	case *Backoff:
		var b v1.Backoff
		err := jsonv2.Unmarshal(text, &b)
		*v = Backoff{Kind: b.Kind, Base: milliseconds(b.BaseMs), Cap: milliseconds(b.CapMs), Jitter: int(b.Jitter)}
		return err
	}
	return jsonv2.Unmarshal(text, &s.value)
}

// QueuePatch is a change of the settings of a type. v1.QueueSettings documents each
// of them.
type QueuePatch struct {
	Paused             Setting[bool]          `json:"paused,omitzero"`
	MaxRunning         Setting[int64]         `json:"maxRunning,omitzero"`
	MaxRunningPerGroup Setting[int64]         `json:"maxRunningPerGroup,omitzero"`
	RatePerSecond      Setting[float64]       `json:"ratePerSecond,omitzero"`
	Burst              Setting[int64]         `json:"burst,omitzero"`
	Aging              Setting[time.Duration] `json:"agingMs,omitzero"`
	Lease              Setting[time.Duration] `json:"leaseMs,omitzero"`
	Timeout            Setting[time.Duration] `json:"timeoutMs,omitzero"`
	MaxAttempts        Setting[int64]         `json:"maxAttempts,omitzero"`
	Backoff            Setting[Backoff]       `json:"backoff,omitzero"`
	RetainFor          Setting[time.Duration] `json:"retainMs,omitzero"`
	RetainCount        Setting[int64]         `json:"retainCount,omitzero"`
	RetainDeadFor      Setting[time.Duration] `json:"retainDeadMs,omitzero"`
	RetainDeadCount    Setting[int64]         `json:"retainDeadCount,omitzero"`
	MaxJobs            Setting[int64]         `json:"maxJobs,omitzero"`
	MaxBytes           Setting[int64]         `json:"maxBytes,omitzero"`
	MaxPayload         Setting[int64]         `json:"maxPayload,omitzero"`
}
