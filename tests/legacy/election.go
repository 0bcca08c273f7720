package legacy

import (
	"context"
	"errors"
	"fmt"

	"osqueue/storage"
)

// key is the name of the document.
const key = "queue.json"

// Result is the outcome of an election.
type Result struct {
	Status string // one of the four below
	Leader string // for OtherLeader
}

// The outcomes of an election.
const (
	Elected       = "elected"
	AlreadyLeader = "already_leader"
	OtherLeader   = "other_leader"
	Conflict      = "conflict"
)

// TryElect attempts once to register c.Address as the broker, at time now.
func (c *Config) TryElect(ctx context.Context, b storage.Bucket, now int64) (Result, error) {
	text, version, err := load(ctx, b)
	if errors.Is(err, storage.ErrNotFound) {
		return outcome(b.PutIfAbsent(ctx, key, firstDocument(c.Address, now)))
	}
	if err != nil {
		return Result{}, err
	}
	doc, err := c.parse(text)
	if err != nil {
		return Result{}, err
	}
	broker, _ := doc.get("broker")
	if broker != nil && float64(now)-doc.number("brokerHeartbeat") <= float64(c.Timeout.Milliseconds()) {
		if same(broker, c.Address) {
			return Result{Status: AlreadyLeader}, nil
		}
		return Result{Status: OtherLeader, Leader: fmt.Sprint(broker)}, nil
	}
	doc.register(c.Address, float64(now))
	return outcome(b.PutIfMatch(ctx, key, stringify(doc.object), version))
}

func firstDocument(address string, now int64) []byte {
	d := parsed{object: newObject()}
	d.register(address, float64(now))
	d.set("jobs", []any{})
	d.set("completedTotal", 0.0)
	return stringify(d.object)
}

func outcome(w storage.Write) (Result, error) {
	switch w.Outcome {
	case storage.Committed:
		return Result{Status: Elected}, nil
	case storage.Conflict:
		return Result{Status: Conflict}, nil
	default:
		return Result{}, fmt.Errorf("write the registration: %w", w.Err)
	}
}

// CheckLeadership reports whether c.Address is the registered broker, regardless of the
// age of its heartbeat.
func (c *Config) CheckLeadership(ctx context.Context, b storage.Bucket) (bool, error) {
	text, _, err := load(ctx, b)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	doc, err := c.parse(text)
	if err != nil {
		return false, err
	}
	return same(doc.values["broker"], c.Address), nil
}

func load(ctx context.Context, b storage.Bucket) (text []byte, v storage.Version, err error) {
	o, err := b.Get(ctx, key)
	return o.Data, o.Version, err
}

// parse decodes a document. A value that is not an object has no fields; null has no value
// at all.
func (c *Config) parse(text []byte) (*parsed, error) {
	v, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("SyntaxError: %w", err)
	}
	o, ok := v.(*object)
	if !ok {
		return nil, errType
	}
	if _, there := o.get("jobs"); !there && c.Missing == Unreadable {
		return nil, errors.New("the document has no jobs")
	}
	return &parsed{object: o, missing: c.Missing}, nil
}
