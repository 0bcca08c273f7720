package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// call is one request to the cluster, with all its attempts.
type call struct {
	op       string // the method, for error messages
	name     string // the id or name that the call is about; may be ""
	prefix   string // the path of what has the name; "": path is set
	action   string // the segment behind the name; may be ""
	method   string // "": POST for a write, GET for a read
	path     string
	query    url.Values    // may be nil
	in       any           // the body, before it is encoded; nil: body is set, or there is none
	body     []byte        // in JSON; nil: none, or it is encoded when a request over HTTP needs it
	proto    []byte        // in protobuf, for a stream, if in is a v1.Message
	safe     bool          // sendWrite makes no idempotency key
	anywhere bool          // any node can answer
	write    bool          // the call changes state, so its outcome matters
	key      string        // its idempotency key; "": the key of the context, if any
	once     bool          // nothing makes a repetition safe
	wait     time.Duration // how long the server may hold the request
	leases   bool          // the answer leases jobs to the caller
	passing  bool          // a claim, heartbeat or registration: the caller repeats what is lost
	patient  bool          // the answer that a wait timed out is final
	lasting  bool          // a read that continues while all nodes restart
	stream   bool          // the answer is a stream of events
	hollow   bool          // the answer may be empty
	limit    int           // of a list: the most items; 0: all
	after    string        // the id of the last event received; "": none

	ack    Ack           // the level that the write asks for
	bucket time.Duration // how long the server may wait for the bucket during this attempt
	own    *Receipt      // the receipt of the calling method; may be nil, like given
	given  *Receipt      // the receipt of the context
}

// send makes the call and decodes its answer.
func send[T any](ctx context.Context, c *caller, k call) (T, error) {
	var out T
	err := c.do(ctx, k, func(body answer) error {
		out = *new(T)
		if k.hollow && len(body.bytes) == 0 {
			return nil
		}
		return body.decode(&out)
	})
	return out, err
}

// sendRead is like send, for a read of the moment of ctx.
func sendRead[T any](ctx context.Context, c *caller, k call) (T, error) {
	return send[T](ctx, c, c.read(ctx, k))
}

// sendWrite is like send, for a write whose answer may be empty. Unless it is safe, it gets an idempotency key.
func sendWrite[T any](ctx context.Context, c *caller, k call) (T, error) {
	k.write, k.hollow = true, true
	if !k.safe {
		k.key = ownKey(ctx)
	}
	return send[T](ctx, c, k)
}

// sendDone is like sendWrite, for writes whose answer is not needed.
func sendDone(ctx context.Context, c *caller, k call) error {
	_, err := sendWrite[v1.Done](ctx, c, k)
	return err
}

// prepare sets the method, the path and the body, which streams may carry.
func (k *call) prepare(streams bool) (err error) {
	if k.method == "" {
		k.method = http.MethodGet
		if k.write {
			k.method = http.MethodPost
		}
	}
	if k.prefix != "" {
		if k.path, err = namePath(k.prefix, k.name, k.action); err != nil {
			return err
		}
	}
	m, isMessage := k.in.(v1.Message)
	switch {
	case isMessage && streams:
		k.proto, err = m.AppendProto([]byte{})
	case isMessage:
		k.body, err = m.AppendJSON(nil)
	case k.in != nil:
		k.body, err = encode(k.in)
	}
	return err
}

// json returns the body in JSON; nil if there is none.
func (k *call) json() []byte {
	if k.body == nil && k.proto != nil {
		body, _ := k.in.(v1.Message).AppendJSON(nil) // its texts are UTF-8, or else prepare has failed
		return body
	}
	return k.body
}

// do repeats attempts until one succeeds, one fails finally, or Config.RetryFor has
// passed. accept reads the body of a 2xx answer; if it fails, the answer counts as
// missing.
func (c *caller) do(ctx context.Context, k call, accept func(answer) error) error {
	if k.write && k.key == "" {
		k.key = keyOf(ctx)
	}
	if err := errors.Join(k.prepare(c.streams != nil), checkKey(k.key), c.askAck(ctx, &k)); err != nil {
		return local(k.op, err)
	}
	t := &trial{call: k}
	for {
		if err := c.ended(ctx); err != nil {
			return t.fail(err)
		}
		tgt := c.target(ctx, k)
		o := c.attempt(ctx, tgt, k, accept)
		v := judge(o, time.Now())
		if v.done {
			c.acknowledge(ctx, k, o)
			return nil
		}
		t.note(tgt, o, v)
		if k.patient && o.problem.tag == v1.TagTimeout {
			return t.fail(nil)
		}
		if !c.again(ctx, t, tgt, v) {
			return t.fail(c.ended(ctx))
		}
	}
}

// target returns the server for the next attempt.
func (c *caller) target(ctx context.Context, k call) *target {
	if k.anywhere {
		return c.tracker.orAny(nil)
	}
	return c.tracker.pick(ctx)
}

// again pauses before the next attempt. It returns false if there must be no
// further attempt.
func (c *caller) again(ctx context.Context, t *trial, tgt *target, v verdict) bool {
	ctx, cancel := c.whileOpen(ctx)
	defer cancel()
	if v.moved {
		c.tracker.giveUp(tgt)
	}
	if !v.again || (t.call.once && v.unknown) || ctx.Err() != nil || c.down(t) {
		return false
	}
	if t.pauses == nil {
		t.pauses = newPauses()
	}
	pause := max(t.pauses.NextBackOff(), v.after)
	if time.Since(t.first)+pause > c.cfg.RetryFor || endsWithin(ctx, pause) {
		return false
	}
	c.cfg.Logger.Debug("repeating a call", "op", t.call.op, "server", tgt.url, "attempt", t.attempts,
		"pause", pause, "reason", t.last)
	if v.moved {
		return c.tracker.await(ctx, pause, tgt)
	}
	return sleep.For(ctx, pause)
}

// down reports whether a read found that no server accepts connections, and no known member does. The cluster
// does not run then, and repetitions only delay the error. Writes, and calls that
// wait for an event, continue during a restart.
func (c *caller) down(t *trial) bool {
	k := t.call
	if k.write || k.wait > 0 || k.stream || k.lasting || len(t.tried) < len(c.cfg.Servers) || !c.tracker.silent() {
		return false
	}
	return !slices.ContainsFunc(t.tried, func(one Try) bool { return !errors.Is(one.Err, syscall.ECONNREFUSED) })
}

// endsWithin reports whether ctx ends before a pause of this length does.
func endsWithin(ctx context.Context, pause time.Duration) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) <= pause
}

func newPauses() *backoff.ExponentialBackOff { return sleep.Pauses(50*time.Millisecond, time.Second) }

// trial holds the results of the attempts of one call.
type trial struct {
	call     call
	pauses   *backoff.ExponentialBackOff // nil before the first one
	attempts int
	first    time.Time // time of the first failure
	unknown  bool
	last     error
	outcome  outcome // of the last attempt
	verdict  verdict
	tried    []Try
}

// note records a failed attempt.
func (t *trial) note(tgt *target, o outcome, v verdict) {
	if t.attempts++; t.attempts == 1 {
		t.first = time.Now()
	}
	t.unknown = t.unknown || v.unknown
	t.outcome, t.verdict = o, v
	t.last = o.failure()
	for i := range t.tried {
		if t.tried[i].Server == tgt.url {
			t.tried[i].Err = t.last
			return
		}
	}
	t.tried = append(t.tried, Try{Server: tgt.url, Err: t.last})
}

// failure returns the outcome as an error.
func (o outcome) failure() error {
	if o.err != nil {
		return o.err
	}
	if o.problem.message != "" {
		return fmt.Errorf("%d %s", o.status, o.problem.message)
	}
	return fmt.Errorf("answered %d", o.status)
}

// fail returns the error of the call. cause is the reason why the context of the
// call ended, or nil.
func (t *trial) fail(cause error) error {
	e := &Error{
		Op:         t.call.op,
		Name:       t.call.name,
		Status:     t.outcome.status,
		Tag:        t.outcome.problem.tag,
		Message:    t.outcome.problem.message,
		Committed:  CommittedNo,
		RetryAfter: t.verdict.after,
		Tried:      t.tried,
		Err:        t.outcome.err,
		again:      t.verdict.again,
	}
	if t.unknown && t.call.write {
		e.Committed = CommittedUnknown
	}
	if cause != nil {
		e.Err = cause
		if t.outcome.err != nil && !errors.Is(t.outcome.err, cause) {
			e.Err = fmt.Errorf("%w (last failure: %w)", cause, t.outcome.err)
		}
	}
	return e
}
