package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

// enforces reports whether the server refuses what a principal may not do, or only logs it.
func (s *Core) enforces(p *auth.Principal) bool {
	return s.access.Mode != SecurityLog || p.Kind == auth.KindLegacy
}

// checkJob refuses a job outside of the scope of the caller. Handlers call it for the job that they
// send: it may be another one than the job that had the id when the request came.
func (s *Core) checkJob(c *call, j *fsm.Job) error {
	if c.principal == nil || j == nil {
		return nil
	}
	return s.denied(c, c.principal.CheckJob(j))
}

// denied turns a denial into an answer, or into a warning.
func (s *Core) denied(c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case !s.enforces(c.principal):
		s.wouldRefuse(c, err)
		return nil
	case errors.Is(err, auth.ErrHidden):
		return fsm.NotFound.Err()
	case errors.Is(err, auth.ErrDenied):
		return fail(forbidden, "%v", err)
	}
	return err
}

// checkRead refuses a read outside of the scope of the caller. A list is refused unless it
// names a type in the scope: it is never shortened without a word.
func (s *Core) checkRead(c *call) error {
	p := c.principal
	switch {
	case p == nil || !p.Scoped() || c.route.right&auth.Public != 0 || c.route.at == leaderOnly && c.route.method != http.MethodGet:
		return nil
	case p.Kind == auth.KindLegacy && c.route.path == byName(v1.PathWorkers): // package dtq needs it for heartbeats, and shows no job
		return nil
	case c.route.path == pathLSNWait || c.route.path == v1.PathSelf || c.route.path == frame.Path || c.route.path == v1.PathLogs: // shows no job; each request in a stream is checked
		return nil
	}
	return s.denied(c, s.readable(c, p))
}

func (s *Core) readable(c *call, p *auth.Principal) error {
	switch c.route.path {
	case byID(v1.PathBatches), byName(v1.PathWorkers): // its own alone
		if p.Tenant != "" {
			return nil
		}
	case byName(v1.PathCrons):
		name, err := c.variable()
		if cron := c.state().View().Cron(c.owned(name)); err == nil && cron != nil && p.CheckScope(cron.Job.GetType(), cron.Job.GetGroup()) != nil {
			return errNoCron
		}
		return err
	case byID(v1.PathJobs), byID(v1.PathJobs) + "/" + v1.ActionGraph, byID(v1.PathJobs) + "/" + v1.ActionLogs:
		id, err := c.variable()
		if j := c.state().Job(id); err == nil && j != nil {
			return p.CheckJob(j)
		}
		return err
	case typeOf():
		name, err := c.variable()
		if err == nil {
			err = p.CheckWholeType(name)
		}
		return err
	case v1.PathJobs, v1.PathCount, v1.PathHistory, v1.PathEvents:
		return s.listable(c, p)
	}
	return fail(forbidden, "%s is limited to some types or groups, but %s shows others too", p, c.route.path)
}

// listable checks the types that a list, a history or a stream of events names.
func (s *Core) listable(c *call, p *auth.Principal) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	given := values[v1.ParamType]
	if c.route.path == v1.PathEvents {
		given = strings.Split(strings.Join(given, ","), ",")
	}
	if len(p.Types) > 0 && (len(given) == 0 || slices.Contains(given, "")) {
		return fail(forbidden, "%s is limited to some types: give %s", p, v1.ParamType)
	}
	if len(p.Groups) > 0 {
		return fail(forbidden, "%s is limited to some groups, but %s shows others too", p, c.route.path)
	}
	for _, t := range given {
		if c.route.path != v1.PathEvents {
			t = listedType(t)
		}
		if err := p.CheckType(t); err != nil {
			return err
		}
	}
	return nil
}
