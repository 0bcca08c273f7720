package core

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
	return s.Access.Mode != SecurityLog || p.Kind == auth.KindLegacy
}

// CheckJob refuses a job outside of the scope of the caller. Handlers call it for the job that they
// send: it may be another one than the job that had the id when the request came.
func (s *Core) CheckJob(c *Call, j *fsm.Job) error {
	if c.Principal == nil || j == nil {
		return nil
	}
	return s.Denied(c, c.Principal.CheckJob(j))
}

// Denied turns a denial into an answer, or into a warning.
func (s *Core) Denied(c *Call, err error) error {
	switch {
	case err == nil:
		return nil
	case !s.enforces(c.Principal):
		s.wouldRefuse(c, err)
		return nil
	case errors.Is(err, auth.ErrHidden):
		return fsm.NotFound.Err()
	case errors.Is(err, auth.ErrDenied):
		return Fail(Forbidden, "%v", err)
	}
	return err
}

// checkRead refuses a read outside of the scope of the caller. A list is refused unless it
// names a type in the scope: it is never shortened without a word.
func (s *Core) checkRead(c *Call) error {
	p := c.Principal
	switch {
	case p == nil || !p.Scoped() || c.Route.Right&auth.Public != 0 || c.Route.At == LeaderOnly && c.Route.Method != http.MethodGet:
		return nil
	case p.Kind == auth.KindLegacy && c.Route.Path == ByName(v1.PathWorkers): // package dtq needs it for heartbeats, and shows no job
		return nil
	case c.Route.Path == PathLSNWait || c.Route.Path == v1.PathSelf || c.Route.Path == frame.Path || c.Route.Path == v1.PathLogs: // shows no job; each request in a stream is checked
		return nil
	}
	return s.Denied(c, s.readable(c, p))
}

func (s *Core) readable(c *Call, p *auth.Principal) error {
	switch c.Route.Path {
	case ByID(v1.PathArtefacts), ByID(v1.PathBatches), ByName(v1.PathWorkers), ByName(v1.PathLimits): // its own alone
		if p.Tenant != "" {
			return nil
		}
	case ByName(v1.PathCrons):
		if cron := c.State().View().Cron(c.Owned(c.Name)); cron != nil && p.CheckScope(cron.Job.GetType(), cron.Job.GetOptions().GetGroup()) != nil {
			return ErrNoCron
		}
		return nil
	case ByID(v1.PathJobs), ByID(v1.PathJobs) + "/" + v1.ActionGraph, ByID(v1.PathJobs) + "/" + v1.ActionLogs,
		ByID(v1.PathJobs) + "/" + v1.ActionArtefacts, PathArtefact:
		if j := c.State().Job(c.Name); j != nil {
			return p.CheckJob(j)
		}
		return nil
	case ByType(v1.PathQueues):
		return p.CheckWholeType(c.Name)
	case v1.PathJobs, v1.PathCount, v1.PathHistory, v1.PathEvents, v1.PathScale:
		return s.listable(c, p)
	}
	return Fail(Forbidden, "%s is limited to some types or groups, but %s shows others too", p, c.Route.Path)
}

// listable checks the types that a list, a history or a stream of events names.
func (s *Core) listable(c *Call, p *auth.Principal) error {
	param := v1.ParamType
	if c.Route.Path == v1.PathScale {
		param = v1.ParamTypes
	}
	given := c.Params[param]
	if param == v1.ParamTypes || c.Route.Path == v1.PathEvents {
		given = strings.Split(strings.Join(given, ","), ",")
	}
	if len(p.Types) > 0 && (len(given) == 0 || slices.Contains(given, "")) {
		return Fail(Forbidden, "%s is limited to some types: give %s", p, param)
	}
	if len(p.Groups) > 0 {
		return Fail(Forbidden, "%s is limited to some groups, but %s shows others too", p, c.Route.Path)
	}
	for _, t := range given {
		if c.Route.Path != v1.PathEvents {
			t = ListedType(t)
		}
		if err := p.CheckType(t); err != nil {
			return err
		}
	}
	return nil
}
