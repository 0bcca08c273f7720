package core

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// readQuery is the requested freshness of a read.
type readQuery struct {
	leader bool          // said so, or said nothing else
	min    fsm.LSN       // zero: none
	wait   time.Duration // at most, until it is
	// waitsEnd: the read waits for the end of the job, at most for end.
	WaitsEnd bool
	End      time.Duration
}

// Query parses the query of the request once.
func (c *Call) Query() (url.Values, error) {
	if c.Params != nil || c.RawQuery == "" {
		return c.Params, nil
	}
	values, err := url.ParseQuery(c.RawQuery)
	if err != nil {
		return nil, Fail(BadRequest, "the query is not valid: %s", Shown(err.Error()))
	}
	c.Params = values
	if err := c.checkOnce(values); err != nil {
		return nil, err
	}
	return values, c.checkParams(values)
}

// checkOnce refuses parameters that occur several times, because only one of the values would
// count. Streams of events accept several.
func (c *Call) checkOnce(values url.Values) error {
	if c.Route.Path == v1.PathEvents {
		return nil
	}
	for name, all := range values {
		if name == v1.ParamTag && c.Route.At == UpToDate && c.Route.knows(name) {
			continue // the jobs of a list have all of them
		}
		// Writes have always ignored unknown parameters.
		if len(all) > 1 && (c.Route.At != LeaderOnly || c.Strict || c.Route.knows(name)) {
			return Bad(Shown(name), "occurs %d times in the query; give one value", len(all))
		}
	}
	return nil
}

func (c *Call) ReadQuery() (readQuery, error) {
	q := readQuery{leader: true, wait: c.Core.Config.Timeouts.Fresh}
	values, err := c.Query()
	if err != nil {
		return q, err
	}
	if text := values.Get(v1.ParamMinLSN); text != "" {
		q.leader = false
		if q.min, err = fsm.ParseLSN(text); err != nil {
			return q, Fail(BadRequest, "%s: %s", v1.ParamMinLSN, Shown(err.Error()))
		}
	}
	if text := values.Get(v1.ParamWaitMs); text != "" {
		wait := &q.wait
		if c.Route.AwaitsEnd {
			wait, q.WaitsEnd = &q.End, true
		}
		if *wait, err = c.Core.WaitParam(v1.ParamWaitMs, text); err != nil {
			return q, err
		}
		if q.wait == 0 && q.min.IsZero() { // it asks for no LSN, so there is nothing to wait for but the leader
			q.wait = c.Core.Config.Timeouts.Fresh
		}
	}
	switch text := values.Get(v1.ParamConsistency); text {
	case "":
	case v1.ConsistencyLeader:
		q.leader = true
	case v1.ConsistencyLocal:
		q.leader = false
	default:
		return q, Fail(BadRequest, "%s is %q; must be %s or %s", v1.ParamConsistency, Shown(text),
			v1.ConsistencyLeader, v1.ConsistencyLocal)
	}
	return q, nil
}

func (s *Core) WaitParam(name, text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 {
		return 0, Fail(BadRequest, "%s is %q; must be a number of milliseconds", name, Shown(text))
	}
	return s.BoundedWait(ms), nil
}

// BoundedWait returns the requested wait, at most the limit.
func (s *Core) BoundedWait(ms int64) time.Duration {
	return time.Duration(min(ms, s.Config.Timeouts.Wait.Milliseconds())) * time.Millisecond
}

// freshen returns when the local state is as fresh as the read requires. If done is true, the
// leader has answered the read.
func (s *Core) freshen(c *Call) (done bool, err error) {
	q, err := c.ReadQuery()
	if err != nil {
		return false, err
	}
	if q.leader {
		if done, err := s.PassOn(c, q.wait+q.End); done || err != nil {
			return done, err
		}
	} else if q.min.IsZero() {
		return false, nil
	}
	if q.wait > s.Config.Timeouts.Fresh {
		c.HoldOff(q.wait)
	}
	ctx, cancel := s.Patience(c, q.wait)
	defer cancel()
	if q.leader {
		if err := s.Node.Linearize(ctx); err != nil {
			return false, s.stale(ctx, c, err, q)
		}
	}
	if !q.min.IsZero() {
		if err := s.MustBeOurs(q.min); err != nil {
			return false, err
		}
		if err := s.Node.WaitApplied(ctx, q.min); err != nil {
			return false, s.stale(ctx, c, err, q)
		}
		return false, s.MustBeOurs(q.min) // there may have been an adoption meanwhile
	}
	return false, nil
}

// stale returns the reason why a read could not be fresh enough.
func (s *Core) stale(ctx context.Context, c *Call, err error, q readQuery) error {
	if why := s.Interrupted(c); why != nil {
		return why
	}
	switch {
	case ctx.Err() == nil:
		return err
	case q.min.IsZero():
		return Fail(Late, "no majority confirmed within %s that this node is still the leader; repeat the request, or use "+
			"%s=%s to read the state of this node", q.wait, v1.ParamConsistency, v1.ConsistencyLocal)
	}
	return Fail(Late, "this node did not apply %s within %s (it is at %s); repeat the request, or use another node",
		q.min, q.wait, s.Node.Status().LSN)
}

// Patience returns a context that ends with the request, with the server, or after
// d.
func (s *Core) Patience(c *Call, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.Context(), d)
	stop := context.AfterFunc(s.Closing, cancel)
	return ctx, func() { stop(); cancel() }
}

var errClientGone = &Failure{Kind: clientGone, Detail: "the client has gone"}

// Interrupted returns the reason why a wait ended early; nil if it did not.
func (s *Core) Interrupted(c *Call) error {
	if context.Cause(c.Context()) == ErrRevoked { //nolint:errorlint // it is the value
		return ErrRevoked
	}
	if err := c.Context().Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return errClientGone
	}
	if s.Closing.Err() != nil {
		return Fail(Closing, "this node is shutting down; use another node")
	}
	return nil
}
