package jobs

import (
	"net/http"
	"slices"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// jobs adds, shows and changes jobs and batches.
type jobs struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(core *core.Core) []core.Route {
	s := &jobs{core}
	return slices.Concat(s.jobRoutes(), s.enqueueRoutes(), s.changeRoutes(), s.countRoutes(), s.batchRoutes())
}

func (s *jobs) jobRoutes() []core.Route {
	return []core.Route{
		{Method: http.MethodGet, Path: v1.PathJobs + "/{id}", At: core.UpToDate, Past: true, AwaitsEnd: true, Handle: s.job},
		{
			Method: http.MethodGet, Path: core.ByID(v1.PathJobs) + "/" + v1.ActionGraph, At: core.UpToDate, Past: true, Handle: s.jobGraph,
			Params: []string{v1.ParamLimit},
		},
		{Method: http.MethodGet, Path: v1.PathJobs, At: core.UpToDate, Past: true, Handle: s.listJobs, Params: listParams},
	}
}

// job is GET /v1/jobs/{id}. With waitMs it waits for the end of the job.
func (s *jobs) job(c *core.Call) error {
	id, err := c.Variable()
	if err != nil {
		return err
	}
	q, err := c.ReadQuery()
	if err != nil {
		return err
	}
	j := c.State().Job(id)
	if j != nil && q.WaitsEnd && !core.Ended(j) {
		if j, err = s.awaitEnd(c, j, q.End); err != nil {
			return err
		}
	}
	if j == nil {
		return fsm.NotFound.Err()
	}
	if err := s.CheckJob(c, j); err != nil {
		return err
	}
	c.Out = c.Out[:0]
	if err := c.Grow(listedBytes(j)); err != nil {
		return err
	}
	c.Out = core.AppendJobMembers(c.Out, j.For(c.Viewer()))
	if c.Past == nil { // the bucket does not have it
		c.Out = core.AppendProgress(c.Out, s.Node.ProgressOf(id))
		c.Out = core.AppendActions(c.Out, s.Node, j)
	}
	if q.WaitsEnd && !core.Ended(j) {
		c.Out = append(core.Key(c.Out, "waited"), "false"...)
	}
	c.Out = append(c.Out, '}')
	return c.Send()
}

// awaitEnd returns the job when it has ended, or when the time is over. It returns nil if the
// job no longer exists, also if another one has got its id.
func (s *jobs) awaitEnd(c *core.Call, first *fsm.Job, wait time.Duration) (*fsm.Job, error) {
	id := first.ID
	now := func() *fsm.Job {
		if j := s.Node.Job(id); j != nil && j.Seq == first.Seq && j.CreatedAt == first.CreatedAt {
			return j
		}
		return nil
	}
	c.HoldOff(wait)
	ctx, cancel := s.Patience(c, wait)
	defer cancel()
	for {
		err := s.Node.WaitEnded(ctx, id)
		// A job that has ended may have been retried since.
		if j := now(); j == nil || err == nil && core.Ended(j) {
			return j, nil
		}
		if why := s.Interrupted(c); why != nil {
			return nil, why
		}
		if ctx.Err() != nil {
			return now(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
