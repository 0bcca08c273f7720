package core

import (
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

var _ Past = (*past.States)(nil)

// SpansShown bounds the pieces of history in one answer. Each hole begins another one.
const SpansShown = 100

// readPast rebuilds the state that v1.ParamAt selects. done is false if the call has none.
func (s *Core) readPast(c *Call) (done bool, err error) {
	values := c.Params
	if !c.Route.Past || !values.Has(v1.ParamAt) {
		return false, nil
	}
	if p := c.Principal; p != nil && !p.Has(auth.Read) { // jobs can be followed with less
		if err := s.Denied(c, fmt.Errorf("%w: %s needs %s", auth.ErrDenied, v1.ParamAt, auth.Read.Needed())); err != nil {
			return false, err
		}
	}
	target, err := s.readAt(values.Get(v1.ParamAt))
	if err != nil {
		return false, err
	}
	if values.Has(v1.ParamMinLSN) || values.Has(v1.ParamConsistency) || c.Route.AwaitsEnd && values.Has(v1.ParamWaitMs) {
		return false, Fail(BadRequest, "%s cannot be combined with %s, %s or %s", v1.ParamAt, v1.ParamMinLSN, v1.ParamConsistency, v1.ParamWaitMs)
	}
	if s.Config.Past == nil {
		return false, PastError(past.ErrOff)
	}
	c.HoldOff(s.Config.Timeouts.Past)
	ctx, cancel := s.Patience(c, s.Config.Timeouts.Past)
	defer cancel()
	state, err := s.Config.Past.At(ctx, target)
	if err != nil {
		if why := s.Interrupted(c); why != nil {
			return false, why
		}
		return false, PastError(err)
	}
	c.Past = state
	return true, nil
}

// readAt reads the value of v1.ParamAt: an LSN, or a time in ms.
func (s *Core) readAt(text string) (past.Target, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= SecondsBelow {
		if now := max(s.Node.View().Now(), time.Now().UnixMilli()); ms > now {
			return past.Target{}, Fail(BadRequest, "%s is %d, which is in the future: the present time is %d", v1.ParamAt, ms, now)
		}
		return past.Target{Time: time.UnixMilli(ms)}, nil
	}
	lsn, err := fsm.ParseLSN(text)
	if err != nil || lsn.IsZero() {
		return past.Target{}, Fail(BadRequest, "%s is %q; must be a time in milliseconds since 1970, or an LSN", v1.ParamAt, Shown(text))
	}
	return past.Target{LSN: lsn}, nil
}

// PastError returns the answer for an error of package past.
func PastError(err error) error {
	f := &Failure{Detail: err.Error(), Cause: err}
	switch {
	case errors.Is(err, past.ErrBusy):
		f.Kind = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagRebuilding, Title: "The state is being rebuilt", Retry: time.Second}
	case errors.Is(err, past.ErrNotKept):
		f.Kind = Kind{Status: http.StatusNotFound, Tag: v1.TagNotKept, Title: "That state is not kept"}
	case errors.Is(err, past.ErrTooLarge):
		f.Kind = Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagStateTooLarge, Title: "The state is too large to rebuild on a node"}
		f.Detail += "; give the node more (--past-memory), or use osqueue with --bucket and --at"
	case errors.Is(err, past.ErrOff):
		f.Kind = Kind{Status: http.StatusNotImplemented, Tag: v1.TagPastOff, Title: "Earlier states are not available"}
	default:
		f.Kind = Kind{Status: http.StatusBadGateway, Tag: v1.TagBucket, Title: "The bucket could not be read", Retry: time.Second}
	}
	return f
}
