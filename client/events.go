package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "osqueue/api/v1"
)

// EventOptions choose events. The zero value is all, from now on.
type EventOptions struct {
	Kinds []string // of the Event constants of v1; "job." is all that begin so; none: all
	Type  string   // of jobs of that type; "": of all
	JobID string   // of that job; "": of all
	// After is the id of an event: those behind it follow, as far as they are
	// still held. "": from now on.
	After string
}

func (o EventOptions) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		v1.ParamKind: strings.Join(o.Kinds, ","), v1.ParamType: o.Type, v1.ParamJob: o.JobID,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// eventSilence is after how long without a sign of life a stream is given up.
// Nodes send one every few seconds.
const eventSilence = 45 * time.Second

// eventStable is how long a stream without events must last to count as no
// failure: a node that takes streams only to drop them is one.
const eventStable = 2 * time.Second

var (
	errSilent  = errors.New("the stream of events has gone silent")
	errStream  = errors.New("the stream of events ended")
	errNoEvent = errors.New("the stream has what is no event of osqueue")
)

// Events is the stream of what happens in the queue, until ctx ends, the caller
// goes on no more, or no node could be reached for Config.RetryFor: then its
// last item is an error. Whichever node sends the stream, when it breaks off the
// next one is asked for what follows the last event, so that none is missing or
// there twice. Where that cannot be, an event of the kind v1.EventGap says
// so: look at the state again then.
func (c *Client) Events(ctx context.Context, o EventOptions) iter.Seq2[v1.Event, error] {
	return func(yield func(v1.Event, error) bool) {
		ctx, cancel := c.whileOpen(ctx)
		defer cancel()
		s := &stream{c: c, call: call{
			op: "events", method: http.MethodGet, path: v1.PathEvents, query: o.query(),
			anywhere: true, stream: true, after: o.After,
		}, yield: yield}
		if err := s.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(v1.Event{}, err)
		}
	}
}

// errEnough: the caller does not want more.
var errEnough = errors.New("enough")

// stream is one sequence of events, over all its connections.
type stream struct {
	c      *Client
	call   call // after is the last event seen
	yield  func(v1.Event, error) bool
	opened bool   // a node has sent events from some position on
	gone   int    // how many nodes in a row do not hold what comes next
	trial  *trial // since the last sign of life
}

// run connects until it must not any more.
func (s *stream) run(ctx context.Context) error {
	s.alive()
	for {
		if ctx.Err() != nil {
			return s.trial.fail(context.Cause(ctx))
		}
		if err := s.noteLoss(); err != nil {
			return err
		}
		tgt := s.c.tracker.orAny(nil)
		o := s.connect(ctx, tgt)
		if final(o.err) {
			return o.err
		}
		if o.problem.tag == v1.TagHistoryGone {
			if err := s.noteGone(); err != nil {
				return err
			}
			continue
		}
		v := judge(o, time.Now())
		s.trial.note(tgt, o, v)
		if !s.c.again(ctx, s.trial, tgt, v) {
			return s.trial.fail(context.Cause(ctx))
		}
	}
}

// noteGone is for a node that does not hold what comes next. Another one may:
// how far back a node knows depends on when it was started. Only when as many
// as there are have said so the stream goes on from now.
func (s *stream) noteGone() error {
	if s.gone++; s.gone < len(s.c.cfg.Servers) {
		return nil
	}
	s.gone = 0
	return s.gap()
}

// final reports whether err is no failure of a connection.
func final(err error) bool {
	var e *Error
	return errors.Is(err, errEnough) || errors.As(err, &e)
}

// alive begins a new count of failures.
func (s *stream) alive() { s.trial = &trial{call: s.call, pauses: newPauses()} }

// noteLoss tells of events that nobody can ask for: a stream was open, but no
// event has told where it stood.
func (s *stream) noteLoss() error {
	if !s.opened || s.call.after != "" {
		return nil
	}
	return s.gap()
}

// gap tells that events are missing; what comes next follows from now on.
func (s *stream) gap() error {
	s.call.after, s.opened = "", false
	if !s.yield(v1.Event{Kind: v1.EventGap}, nil) {
		return errEnough
	}
	return nil
}

// connect reads events from one node, for as long as it sends them.
func (s *stream) connect(ctx context.Context, tgt *target) outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.c.cfg.AttemptTimeout, func() { cancel(errSlow) })
	defer watch.Stop()
	o := s.exchange(ctx, tgt, func() { watch.Reset(eventSilence) })
	if cause := context.Cause(ctx); cause != nil && o.err != nil && !final(o.err) {
		o.err = cause
		if errors.Is(cause, errSlow) && s.opened {
			o.err = errSilent
		}
	}
	return o
}

// exchange is one request and its stream.
func (s *stream) exchange(ctx context.Context, tgt *target, heard func()) outcome {
	req, err := s.c.request(ctx, tgt.url, s.call)
	if err != nil {
		return outcome{err: err}
	}
	resp, err := s.c.http.Do(req)
	if err != nil {
		return outcome{err: plain(err)}
	}
	defer resp.Body.Close()
	o := outcome{status: resp.StatusCode, header: resp.Header}
	if o.status != http.StatusOK {
		body, err := readBody(resp, s.c.cfg.MaxAnswerBytes)
		o.problem, o.err = readProblem(body), err
		return o
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, mediaTypeEvents) {
		o.err = fmt.Errorf("answered %q and not a stream of events", kind)
		return o
	}
	heard()
	s.opened, s.gone = true, 0
	began := time.Now()
	o.err = s.read(newFrames(resp.Body, heard))
	if time.Since(began) > eventStable {
		s.alive()
	}
	return o
}

// read hands the events of one connection on.
func (s *stream) read(f *frames) error {
	f.id = s.call.after
	for {
		one, err := f.next()
		s.call.after = f.id
		if errors.Is(err, errLongEvent) {
			return odd(s.call.op, err)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errStream, err)
		}
		s.alive()
		ev, err := event(one, f.id)
		if err != nil {
			return odd(s.call.op, err)
		}
		if !s.yield(ev, nil) {
			return errEnough
		}
	}
}

// event reads one event; id is the last one that the stream has given.
func event(one frame, id string) (v1.Event, error) {
	var ev v1.Event
	if one.data != "" {
		if err := decode([]byte(one.data), &ev); err != nil {
			return ev, fmt.Errorf("%w: %w", errNoEvent, err)
		}
	}
	if ev.Kind == "" {
		ev.Kind = one.name
	}
	if ev.ID == "" && ev.Kind != v1.EventGap {
		ev.ID = id
	}
	return ev, nil
}
