package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

// Past rebuilds earlier states from the bucket. Errors are those of package past.
type Past interface {
	At(ctx context.Context, t past.Target) (*past.State, error)
	Spans(ctx context.Context) ([]past.Span, error)
}

var _ Past = (*past.States)(nil)

// state is read by requests. It is the state that the node has applied, or an earlier one.
type state interface {
	Job(id string) *fsm.Job
	View() *fsm.View
	TypeStats(name string) fsm.TypeStats
	AllTypeStats() map[string]fsm.TypeStats
}

// state returns the state that the call reads.
func (c *call) state() state {
	if c.past != nil {
		return c.past
	}
	return c.s.b
}

func (s *node) pastRoutes() []route {
	return []route{{method: http.MethodGet, path: v1.PathPast, at: anyNode, handle: s.listPast}}
}

// spansShown bounds the pieces of history in one answer. Each hole begins another one.
const spansShown = 100

// listPast is GET /v1/past.
func (s *node) listPast(c *call) error {
	if s.cfg.Past == nil {
		return pastError(past.ErrOff)
	}
	ctx, cancel := s.patience(c, s.cfg.Timeouts.Past)
	defer cancel()
	spans, err := s.cfg.Past.Spans(ctx)
	if err != nil {
		if why := s.interrupted(c); why != nil {
			return why
		}
		return pastError(err)
	}
	out := v1.Past{Spans: []v1.PastSpan{}, Now: s.b.View().Meta().Now}
	for _, span := range spans[max(0, len(spans)-spansShown):] {
		out.Spans = append(out.Spans, v1.PastSpan{
			FromLSN: span.From.String(), ToLSN: span.To.String(), From: span.Since.UnixMilli(), To: span.Until.UnixMilli(),
		})
	}
	return c.sendJSON(out)
}

// readPast rebuilds the state that v1.ParamAt selects. done is false if the call has none.
func (s *Core) readPast(c *call) (done bool, err error) {
	if !c.route.past {
		return false, nil
	}
	values, err := c.query()
	if err != nil || !values.Has(v1.ParamAt) {
		return false, err
	}
	if p := c.principal; p != nil && !p.Has(auth.Read) { // jobs can be followed with less
		if err := s.denied(c, fmt.Errorf("%w: %s needs %s", auth.ErrDenied, v1.ParamAt, auth.Read.Needed())); err != nil {
			return false, err
		}
	}
	target, err := s.readAt(values.Get(v1.ParamAt))
	if err != nil {
		return false, err
	}
	if values.Has(v1.ParamMinLSN) || values.Has(v1.ParamConsistency) || c.route.awaitsEnd && values.Has(v1.ParamWaitMs) {
		return false, fail(badRequest, "%s cannot be combined with %s, %s or %s", v1.ParamAt, v1.ParamMinLSN, v1.ParamConsistency, v1.ParamWaitMs)
	}
	if s.cfg.Past == nil {
		return false, pastError(past.ErrOff)
	}
	c.holdOff(s.cfg.Timeouts.Past)
	ctx, cancel := s.patience(c, s.cfg.Timeouts.Past)
	defer cancel()
	state, err := s.cfg.Past.At(ctx, target)
	if err != nil {
		if why := s.interrupted(c); why != nil {
			return false, why
		}
		return false, pastError(err)
	}
	c.past = state
	return true, nil
}

// readAt reads the value of v1.ParamAt: an LSN, or a time in ms.
func (s *Core) readAt(text string) (past.Target, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= secondsBelow {
		if now := max(s.b.View().Meta().Now, time.Now().UnixMilli()); ms > now {
			return past.Target{}, fail(badRequest, "%s is %d, which is in the future: the present time is %d", v1.ParamAt, ms, now)
		}
		return past.Target{Time: time.UnixMilli(ms)}, nil
	}
	lsn, err := fsm.ParseLSN(text)
	if err != nil || lsn.IsZero() {
		return past.Target{}, fail(badRequest, "%s is %q; must be a time in milliseconds since 1970, or an LSN", v1.ParamAt, shown(text))
	}
	return past.Target{LSN: lsn}, nil
}

// pastError returns the answer for an error of package past.
func pastError(err error) error {
	f := &failure{detail: err.Error(), cause: err}
	switch {
	case errors.Is(err, past.ErrBusy):
		f.kind = kind{status: http.StatusServiceUnavailable, tag: v1.TagRebuilding, title: "The state is being rebuilt", retry: time.Second}
	case errors.Is(err, past.ErrNotKept):
		f.kind = kind{status: http.StatusNotFound, tag: v1.TagNotKept, title: "That state is not kept"}
	case errors.Is(err, past.ErrTooLarge):
		f.kind = kind{status: http.StatusInsufficientStorage, tag: v1.TagStateTooLarge, title: "The state is too large to rebuild on a node"}
		f.detail += "; give the node more (--past-memory), or use osqueue with --bucket and --at"
	case errors.Is(err, past.ErrOff):
		f.kind = kind{status: http.StatusNotImplemented, tag: v1.TagPastOff, title: "Earlier states are not available"}
	default:
		f.kind = kind{status: http.StatusBadGateway, tag: v1.TagBucket, title: "The bucket could not be read", retry: time.Second}
	}
	return f
}
