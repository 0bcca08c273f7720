package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// EventOptions select events. The zero value selects all events from now on.
type EventOptions struct {
	Kinds []string // Event constants of package v1; a name that ends in "." selects all that begin with it, such as "job."; none: all
	Type  string   // events of jobs of this type; "": all
	JobID string   // events of this job; "": all
	// After is the id of an event. The stream begins with the event that follows
	// it, if the nodes still hold that. "" means from now on.
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

// eventSilence is the time without any line after which a stream counts as broken.
// Nodes send a keepalive every few seconds.
const eventSilence = 45 * time.Second

// eventStable is how long a stream without events must last to count as a success.
// It bounds the repetitions at a node that accepts streams and then drops them.
const eventStable = 2 * time.Second

var (
	errSilent  = errors.New("the stream of events is silent: no keepalive arrived in time")
	errStream  = errors.New("the stream of events ended")
	errNoEvent = errors.New("the stream contains data that is not an event of osqueue")
)

// Events iterates over the events of the queue. The sequence ends when ctx ends,
// when the loop breaks, or when no node could be reached for Config.RetryFor; the
// last item is then an error, unless the loop broke.
//
// If a connection breaks, the client asks the next node for the events after the
// last one, so that no event is missing and none comes twice. If the nodes no
// longer hold the next event, Events yields an event of the kind v1.EventGap. Read
// the state again when you receive it.
func (c *Client) Events(ctx context.Context, o EventOptions) iter.Seq2[v1.Event, error] {
	return func(yield func(v1.Event, error) bool) {
		ctx, cancel := c.whileOpen(ctx)
		defer cancel()
		s := &stream{c: c, call: call{
			op: "events", path: v1.PathEvents, query: o.query(),
			anywhere: true, stream: true, after: o.After,
		}, yield: func(ev v1.Event, err error) bool {
			c.openEvent(ctx, &ev)
			return yield(ev, err)
		}}
		if err := s.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(v1.Event{}, err)
		}
	}
}

// errEnough means that the caller ended the loop.
var errEnough = errors.New("enough")

// stream is one sequence of events over all its connections.
type stream struct {
	c      *Client
	call   call // call.after is the id of the last event
	yield  func(v1.Event, error) bool
	opened bool   // a node has accepted the stream, so that events may be missed when it breaks
	gone   int    // the number of nodes in a row that do not hold the next event
	trial  *trial // the attempts since the last line of a stream
}

// run connects again and again until the caller stops or the attempts fail.
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

// noteGone handles a node that does not hold the next event. Another node may hold
// it, because a node remembers events only since its start. After as many such
// answers as there are servers, the stream continues from now on, with a gap.
func (s *stream) noteGone() error {
	if s.gone++; s.gone < len(s.c.cfg.Servers) {
		return nil
	}
	s.gone = 0
	return s.gap()
}

// final reports whether err ends the stream, rather than one connection.
func final(err error) bool {
	var e *Error
	return errors.Is(err, errEnough) || errors.As(err, &e)
}

// alive starts a new count of failures.
func (s *stream) alive() { s.trial = &trial{call: s.call, pauses: newPauses()} }

// noteLoss reports a gap if a stream was open but no event arrived: without an id
// the client cannot ask for the events that followed.
func (s *stream) noteLoss() error {
	if !s.opened || s.call.after != "" {
		return nil
	}
	return s.gap()
}

// gap yields v1.EventGap. The stream then continues from now on.
func (s *stream) gap() error {
	s.call.after, s.opened = "", false
	if !s.yield(v1.Event{Kind: v1.EventGap}, nil) {
		return errEnough
	}
	return nil
}

// connect reads events from one node until the connection ends.
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

// exchange sends one request and reads its stream.
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
	o := outcome{status: resp.StatusCode, retry: resp.Header.Get("Retry-After")}
	if o.status != http.StatusOK {
		body, err := readBody(resp, s.c.cfg.MaxAnswerBytes)
		o.problem, o.err = readProblem(body), err
		return o
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, mediaTypeEvents) {
		o.err = fmt.Errorf("answered with the content type %q; expected %s", kind, mediaTypeEvents)
		return o
	}
	heard()
	s.c.tracker.refresh(tgt)
	s.opened, s.gone = true, 0
	began := time.Now()
	o.err = s.read(newFrames(resp.Body, heard))
	if time.Since(began) > eventStable {
		s.alive()
	}
	return o
}

// read yields the events of one connection.
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

// event decodes one event. id is the last id of the stream; it applies if the event
// has none.
func event(one frame, id string) (v1.Event, error) {
	var ev v1.Event
	if one.data != "" {
		if err := decode([]byte(one.data), &ev); err != nil {
			return ev, fmt.Errorf("%w: %w", errNoEvent, err)
		}
	}
	ev.Kind = cmp.Or(ev.Kind, one.name)
	if ev.ID == "" && ev.Kind != v1.EventGap {
		ev.ID = id
	}
	return ev, nil
}
