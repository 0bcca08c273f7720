package api

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
	waitsEnd bool
	end      time.Duration
}

// query parses the query of the request once.
func (c *call) query() (url.Values, error) {
	if c.params != nil || c.rawQuery == "" {
		return c.params, nil
	}
	values, err := url.ParseQuery(c.rawQuery)
	if err != nil {
		return nil, fail(badRequest, "the query is not valid: %s", shown(err.Error()))
	}
	c.params = values
	if err := c.checkOnce(values); err != nil {
		return nil, err
	}
	return values, c.checkParams(values)
}

// checkOnce refuses parameters that occur several times, because only one of the values would
// count. Streams of events accept several.
func (c *call) checkOnce(values url.Values) error {
	if c.route.path == v1.PathEvents {
		return nil
	}
	for name, all := range values {
		if name == v1.ParamTag && c.route.at == upToDate && c.route.knows(name) {
			continue // the jobs of a list have all of them
		}
		// Writes have always ignored unknown parameters.
		if len(all) > 1 && (c.route.at != leaderOnly || c.strict || c.route.knows(name)) {
			return bad(shown(name), "occurs %d times in the query; give one value", len(all))
		}
	}
	return nil
}

func (c *call) readQuery() (readQuery, error) {
	q := readQuery{leader: true, wait: c.s.cfg.Timeouts.Fresh}
	values, err := c.query()
	if err != nil {
		return q, err
	}
	if text := values.Get(v1.ParamMinLSN); text != "" {
		q.leader = false
		if q.min, err = fsm.ParseLSN(text); err != nil {
			return q, fail(badRequest, "%s: %s", v1.ParamMinLSN, shown(err.Error()))
		}
	}
	if text := values.Get(v1.ParamWaitMs); text != "" {
		wait := &q.wait
		if c.route.awaitsEnd {
			wait, q.waitsEnd = &q.end, true
		}
		if *wait, err = c.s.waitParam(v1.ParamWaitMs, text); err != nil {
			return q, err
		}
		if q.wait == 0 && q.min.IsZero() { // it asks for no LSN, so there is nothing to wait for but the leader
			q.wait = c.s.cfg.Timeouts.Fresh
		}
	}
	switch text := values.Get(v1.ParamConsistency); text {
	case "":
	case v1.ConsistencyLeader:
		q.leader = true
	case v1.ConsistencyLocal:
		q.leader = false
	default:
		return q, fail(badRequest, "%s is %q; must be %s or %s", v1.ParamConsistency, shown(text),
			v1.ConsistencyLeader, v1.ConsistencyLocal)
	}
	return q, nil
}

func (s *Core) waitParam(name, text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 {
		return 0, fail(badRequest, "%s is %q; must be a number of milliseconds", name, shown(text))
	}
	return s.boundedWait(ms), nil
}

// boundedWait returns the requested wait, at most the limit.
func (s *Core) boundedWait(ms int64) time.Duration {
	return time.Duration(min(ms, s.cfg.Timeouts.Wait.Milliseconds())) * time.Millisecond
}

// freshen returns when the local state is as fresh as the read requires. If done is true, the
// leader has answered the read.
func (s *Core) freshen(c *call) (done bool, err error) {
	q, err := c.readQuery()
	if err != nil {
		return false, err
	}
	if q.leader {
		if done, err := s.passOn(c, q.wait+q.end); done || err != nil {
			return done, err
		}
	} else if q.min.IsZero() {
		return false, nil
	}
	if q.wait > s.cfg.Timeouts.Fresh {
		c.holdOff(q.wait)
	}
	ctx, cancel := s.patience(c, q.wait)
	defer cancel()
	if q.leader {
		if err := s.b.Linearize(ctx); err != nil {
			return false, s.stale(ctx, c, err, q)
		}
	}
	if !q.min.IsZero() {
		if err := s.mustBeOurs(q.min); err != nil {
			return false, err
		}
		if err := s.b.WaitApplied(ctx, q.min); err != nil {
			return false, s.stale(ctx, c, err, q)
		}
		return false, s.mustBeOurs(q.min) // there may have been an adoption meanwhile
	}
	return false, nil
}

// stale returns the reason why a read could not be fresh enough.
func (s *Core) stale(ctx context.Context, c *call, err error, q readQuery) error {
	if why := s.interrupted(c); why != nil {
		return why
	}
	switch {
	case ctx.Err() == nil:
		return err
	case q.min.IsZero():
		return fail(late, "no majority confirmed within %s that this node is still the leader; repeat the request, or use "+
			"%s=%s to read the state of this node", q.wait, v1.ParamConsistency, v1.ConsistencyLocal)
	}
	return fail(late, "this node did not apply %s within %s (it is at %s); repeat the request, or use another node",
		q.min, q.wait, s.b.Status().LSN)
}

// patience returns a context that ends with the request, with the server, or after
// d.
func (s *Core) patience(c *call, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.context(), d)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

var errClientGone = &failure{kind: clientGone, detail: "the client has gone"}

// interrupted returns the reason why a wait ended early; nil if it did not.
func (s *Core) interrupted(c *call) error {
	if context.Cause(c.context()) == errRevoked { //nolint:errorlint // it is the value
		return errRevoked
	}
	if err := c.context().Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return errClientGone
	}
	if s.closing.Err() != nil {
		return fail(closing, "this node is shutting down; use another node")
	}
	return nil
}
