package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

// Queues iterates over the job types that have jobs or settings, ordered by type.
// An error is the last item of the sequence.
func (c *Client) Queues(ctx context.Context) iter.Seq2[v1.Queue, error] {
	return c.QueuesBy(ctx, v1.SortType)
}

// QueuesBy is Queues in an order: v1.SortType, v1.SortOldestAt or v1.SortMostUnclaimed. If the
// queue changes between two pages, a type may occur twice or not at all, except by type.
func (c *Client) QueuesBy(ctx context.Context, sort string) iter.Seq2[v1.Queue, error] {
	list := listing{op: "list queues", path: v1.PathQueues, query: url.Values{}}
	if sort != v1.SortType {
		list.query.Set(v1.ParamSort, sort)
	}
	return pages(ctx, c, list, func(p v1.QueueList) ([]v1.Queue, string) { return p.Queues, p.NextCursor })
}

// Queue returns the counters and settings of one type. The type "" stands for jobs
// without a type.
func (c *Client) Queue(ctx context.Context, jobType string) (v1.Queue, error) {
	const op = "get queue"
	path, err := namePath(v1.PathQueues, v1.QueueName(jobType), "")
	if err != nil {
		return v1.Queue{}, local(op, err)
	}
	return send[v1.Queue](ctx, c, c.read(ctx, op, path, nil).about(jobType))
}

// SetQueue changes the settings that the patch sets and keeps all others. It
// returns the queue after the change.
func (c *Client) SetQueue(ctx context.Context, jobType string, patch QueuePatch) (v1.Queue, error) {
	const op = "set queue"
	body, err := patch.encode()
	if err != nil {
		return v1.Queue{}, local(op, err)
	}
	return writeName[v1.Queue](ctx, c, named{op: op, method: http.MethodPatch, prefix: v1.PathQueues, name: v1.QueueName(jobType), body: body})
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

// PauseQueueWith is PauseQueue with a reason and an end. If the type is paused already,
// its pause gets them too, and keeps its beginning.
func (c *Client) PauseQueueWith(ctx context.Context, jobType string, p Pause) (v1.Queue, error) {
	const op = "pause queue"
	in := v1.NewPause{Reason: p.Reason, ForMs: inMilliseconds(p.For)}
	if !p.Until.IsZero() {
		in.Until = p.Until.UnixMilli()
	}
	body, err := jsonv2.Marshal(in)
	if err != nil {
		return v1.Queue{}, local(op, err)
	}
	return writeName[v1.Queue](ctx, c, named{op: op, prefix: v1.PathQueues, name: v1.QueueName(jobType), action: v1.ActionPause, body: body})
}

// PauseQueue stops claims of jobs of the type until ResumeQueue. Running jobs
// continue.
func (c *Client) PauseQueue(ctx context.Context, jobType string) (v1.Queue, error) {
	return writeName[v1.Queue](ctx, c, named{op: "pause queue", prefix: v1.PathQueues, name: v1.QueueName(jobType), action: v1.ActionPause})
}

// ResumeQueue ends the pause of a type.
func (c *Client) ResumeQueue(ctx context.Context, jobType string) (v1.Queue, error) {
	return writeName[v1.Queue](ctx, c, named{op: "resume queue", prefix: v1.PathQueues, name: v1.QueueName(jobType), action: v1.ActionResume})
}

// RemoveQueue resets all settings of the type to their defaults and ends its pause.
// The jobs of the type stay.
func (c *Client) RemoveQueue(ctx context.Context, jobType string) error {
	return writeDone(ctx, c, named{op: "remove queue", method: http.MethodDelete, prefix: v1.PathQueues, name: v1.QueueName(jobType)})
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

// wire returns the JSON of the setting, whose value of converts. It returns nil if
// the setting stays.
func (s Setting[T]) wire(of func(T) any) (json.RawMessage, error) {
	switch {
	case !s.set:
		return nil, nil
	case s.reverts:
		return json.RawMessage("null"), nil
	}
	text, err := jsonv2.Marshal(of(s.value))
	return text, err
}

// QueuePatch is a change of the settings of a type. v1.QueueSettings documents each
// of them.
type QueuePatch struct {
	Paused             Setting[bool]
	MaxRunning         Setting[int64]
	MaxRunningPerGroup Setting[int64]
	RatePerSecond      Setting[float64]
	Burst              Setting[int64]
	Lease              Setting[time.Duration]
	Timeout            Setting[time.Duration]
	MaxAttempts        Setting[int64]
	Backoff            Setting[Backoff]
	RetainFor          Setting[time.Duration]
	RetainCount        Setting[int64]
	MaxJobs            Setting[int64]
	MaxBytes           Setting[int64]
	MaxPayload         Setting[int64]
}

// patchMember is one field of the patch in the wire format.
type patchMember struct {
	name  string
	value json.RawMessage
	err   error
}

func member[T any](name string, s Setting[T], of func(T) any) patchMember {
	value, err := s.wire(of)
	return patchMember{name: name, value: value, err: err}
}

func plainly[T any](v T) any { return v }

func asMilliseconds(d time.Duration) any { return inMilliseconds(d) }

func asBackoff(b Backoff) any { return b.wire() }

func (p QueuePatch) members() []patchMember {
	return []patchMember{
		member("paused", p.Paused, plainly),
		member("maxRunning", p.MaxRunning, plainly),
		member("maxRunningPerGroup", p.MaxRunningPerGroup, plainly),
		member("ratePerSecond", p.RatePerSecond, plainly),
		member("burst", p.Burst, plainly),
		member("leaseMs", p.Lease, asMilliseconds),
		member("timeoutMs", p.Timeout, asMilliseconds),
		member("maxAttempts", p.MaxAttempts, plainly),
		member("backoff", p.Backoff, asBackoff),
		member("retainMs", p.RetainFor, asMilliseconds),
		member("retainCount", p.RetainCount, plainly),
		member("maxJobs", p.MaxJobs, plainly),
		member("maxBytes", p.MaxBytes, plainly),
		member("maxPayload", p.MaxPayload, plainly),
	}
}

// encode returns the JSON of the patch. A null resets a setting, and an absent
// field keeps it.
func (p QueuePatch) encode() ([]byte, error) {
	body := []byte{'{'}
	for _, m := range p.members() {
		if m.err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, m.err)
		}
		if m.value == nil {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, '"')
		body = append(body, m.name...)
		body = append(body, '"', ':')
		body = append(body, m.value...)
	}
	return append(body, '}'), nil
}
