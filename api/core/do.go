package core

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

// Do answers a call: it leaves the answer in c. It returns false if a handler panicked, which may have left c anywhere.
func (s *Core) Do(c *Call) (sound bool) {
	c.began = time.Now()
	s.Metrics.inFlight.Inc()
	defer func() {
		s.Metrics.inFlight.Dec()
		s.Metrics.answered(c.Route, c.Method, c.Status, time.Since(c.began))
	}()
	err := s.guarded(c)
	if err != nil {
		s.refuse(c, err)
	}
	s.audit(c, err)
	if s.Log.IsDebug() {
		s.logCall(c, err)
	}
	return !errors.Is(err, errPanic)
}

var errPanic = errors.New("the handler panicked")

// guarded answers the call; a panic becomes an error.
func (s *Core) guarded(c *Call) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			panic(p)
		}
		c.logger().Error("a handler panicked", "route", c.Route.Path, "method", c.Method, "panic", p, "stack", string(debug.Stack()))
		err = errPanic
	}()
	return s.answer(c)
}

// answer handles the call here, or forwards it to the leader.
func (s *Core) answer(c *Call) error {
	badName := c.readName() // first: the audit log has the name, also of a call that is refused
	if err := s.authorize(c); err != nil {
		return err
	}
	c.Strict = prefersStrict(c.Prefer)
	if err := cmp.Or(badName, c.readParams()); err != nil {
		return err
	}
	done, err := s.readPast(c)
	switch {
	case err != nil:
		return err
	case done:
		if err := s.checkRead(c); err != nil {
			return err
		}
		return c.Route.Handle(c)
	}
	switch c.Route.At {
	case AnyNode:
		if c.Route.Right&auth.Admin != 0 {
			err = s.admit(c)
		}
	case LeaderOnly:
		if err = c.readAck(); err == nil {
			done, err = s.PassOn(c, 0)
		}
		if !done && err == nil {
			err = s.admit(c)
		}
		if !done && err == nil {
			err = c.readKey()
		}
	case UpToDate:
		done, err = s.freshen(c)
	case InMemory:
		done, err = s.passOnWait(c)
	}
	if done || err != nil {
		return err
	}
	if err := s.checkRead(c); err != nil {
		return err
	}
	c.Followed = c.Strict
	return c.Route.Handle(c)
}

// refuse answers with a problem.
func (s *Core) refuse(c *Call, err error) {
	f := FailureOf(err)
	// An earlier refusal stays, although a body that is too slow also ends the context.
	if c.Context().Err() != nil && f.Status >= http.StatusInternalServerError {
		f = &Failure{Kind: clientGone, Detail: "the client has gone", Cause: err}
	}
	if f.Status == http.StatusInternalServerError {
		c.logger().Error("a request failed", "route", c.Route.Path, "method", c.Method, "error", err)
	}
	if c.Begun {
		c.Broken = true
		return
	}
	s.Metrics.problems.WithLabelValues(f.Tag).Inc()
	c.fail(f, c.Route.At == LeaderOnly)
}

// logCall logs a request at level debug only, because it costs more than some requests.
func (s *Core) logCall(c *Call, err error) {
	id := c.RequestID
	if id == "" {
		id = fmt.Sprintf("%s-%d", s.Name, s.served.Add(1))
	}
	c.logger().Debug("answered", "request", Shown(id), "method", c.Method, "path", Shown(c.PathText()), "status", c.Status,
		"lsn", lsnOrNone(c.Lsn), "took", time.Since(c.began), "client", c.Remote, "error", err)
}

func lsnOrNone(lsn fsm.LSN) string {
	if lsn.IsZero() {
		return ""
	}
	return lsn.String()
}

// fail makes the failure the answer; write tells whether the request would have changed anything.
func (c *Call) fail(f *Failure, write bool) {
	body, err := Marshal(f.Problem(write))
	if err != nil {
		body = []byte(`{"_tag":"` + v1.TagInternal + `"}`)
	}
	c.Status, c.Fault, c.Out, c.Ready = f.Status, f, body, true
}
