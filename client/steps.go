package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/envelope"
)

// StoreStep stores the value of a step of a job that the caller holds, and returns the value that the job has: the first one,
// if it had a step of that name. Later attempts get it with their claim. If the lease is lost, IsLeaseLost(err) is true.
func (c *Client) StoreStep(ctx context.Context, l Lease, name string, value json.RawMessage) (json.RawMessage, error) {
	const op = "store step"
	sealed, err := c.sealValue(ctx, envelope.KindStep, l.JobID, name, value)
	if err != nil {
		return nil, unsent(op, err)
	}
	body, err := encodeWith(&v1.NewStep{WorkerID: optional(l.Worker), Token: l.Token, Name: name}, "value", sealed)
	if err != nil {
		return nil, local(op, err)
	}
	out, err := sendWrite[v1.StepStored](ctx, c.caller, call{op: op, prefix: v1.PathJobs, name: l.JobID, action: v1.ActionSteps, body: body, safe: true})
	if err != nil || !out.Duplicate || out.Value == nil {
		return value, err
	}
	o := &opener{c: c.caller, ctx: ctx, id: l.JobID}
	kept := o.named(envelope.KindStep, name, out.Value)
	if o.err != nil {
		return nil, local(op, o.err)
	}
	return kept, nil
}

// Suspension is what a suspended job waits for: a time, a signal that comes before it, or the end of a batch.
type Suspension struct {
	For     time.Duration // from now on, on the server's clock
	Signal  string        // "": none
	BatchID string        // in place of For and Signal
}

// Suspend ends a claim, which does not count as an attempt. Another one begins at the time, when a signal of that name is there,
// or when the batch has ended. Repeated, it succeeds again.
func (c *Client) Suspend(ctx context.Context, l Lease, s Suspension) error {
	return c.report(ctx, l, call{action: v1.ActionSuspend, in: &v1.Suspend{
		WorkerID: optional(l.Worker), Token: l.Token, ForMs: inMilliseconds(s.For), Signal: s.Signal, BatchID: s.BatchID,
	}})
}

// SendSignal sends a signal, with a JSON value or nil, to a job that has not ended. The job gets a signal with the same id once;
// "" means a new id.
func (c *Client) SendSignal(ctx context.Context, jobID, name, id string, value json.RawMessage) (Change, error) {
	const op = "send signal"
	if id == "" {
		id = newMaker(ctx).id()
	}
	sealed, err := c.sealValue(ctx, envelope.KindSignal, jobID, name, value)
	if err != nil {
		return Change{}, unsent(op, err)
	}
	body, err := encodeWith(&v1.NewSignal{ID: id}, "value", sealed)
	if err != nil {
		return Change{}, local(op, err)
	}
	return c.changeOne(ctx, call{op: op, name: jobID, action: v1.ActionSignals + "/" + url.PathEscape(name), body: body, safe: true})
}

// MakeLink makes a link that sends a job one signal, once, for whoever has it. Path is that of a page on any node. It is valid
// for d; 0 is a week.
func (c *Client) MakeLink(ctx context.Context, jobID, signal string, d time.Duration) (v1.Link, error) {
	return sendWrite[v1.Link](ctx, c.caller, call{
		op: "make link", prefix: v1.PathJobs, name: jobID, action: v1.ActionLinks, in: &v1.NewLink{Signal: signal, ForMs: inMilliseconds(d)}, once: true, safe: true,
	})
}

// sealValue encrypts the value of a step or signal.
func (c *caller) sealValue(ctx context.Context, kind, id, name string, value json.RawMessage) (json.RawMessage, error) {
	if err := checkRaw(kind, value); err != nil || c.cfg.Cipher == nil || value == nil {
		return value, err
	}
	sealed, err := c.cfg.Cipher.EncryptWithContext(ctx, value, envelope.Bind(kind, id, name))
	if err != nil {
		return nil, &sealingError{what: kind, err: err}
	}
	return envelope.JSON(envelope.ToJob, sealed), nil
}

// named is like payload, for the value of a step or signal.
func (o *opener) named(kind, name string, raw json.RawMessage) json.RawMessage {
	return o.value(kind, raw, func(string) []byte { return envelope.Bind(kind, o.id, name) })
}

// kept decrypts what a job keeps over its attempts.
func (o *opener) kept(steps []v1.Step, signals []v1.Signal) {
	for i, s := range steps {
		steps[i].Value = o.named(envelope.KindStep, s.Name, s.Value)
	}
	for i, s := range signals {
		signals[i].Value = o.named(envelope.KindSignal, s.Name, s.Value)
	}
}
