package api

import (
	"net/http"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// jobs adds, shows and changes jobs and batches.
type jobs struct{ *Core }

// jobsRoutes returns the operations of the package.
func jobsRoutes(core *Core) []route {
	s := &jobs{core}
	return slices.Concat(s.jobRoutes(), s.enqueueRoutes(), s.changeRoutes(), s.countRoutes(), s.batchRoutes())
}

func (s *jobs) jobRoutes() []route {
	return []route{
		{method: http.MethodGet, path: v1.PathJobs + "/{id}", at: upToDate, past: true, awaitsEnd: true, handle: s.job},
		{
			method: http.MethodGet, path: byID(v1.PathJobs) + "/" + v1.ActionGraph, at: upToDate, past: true, handle: s.jobGraph,
			params: []string{v1.ParamLimit},
		},
		{method: http.MethodGet, path: v1.PathJobs, at: upToDate, past: true, handle: s.listJobs, params: listParams},
	}
}

// job is GET /v1/jobs/{id}. With waitMs it waits for the end of the job.
func (s *jobs) job(c *call) error {
	id, err := c.variable()
	if err != nil {
		return err
	}
	q, err := c.readQuery()
	if err != nil {
		return err
	}
	j := c.state().Job(id)
	if j != nil && q.waitsEnd && !ended(j) {
		if j, err = s.awaitEnd(c, j, q.end); err != nil {
			return err
		}
	}
	if j == nil {
		return fsm.NotFound.Err()
	}
	if err := s.checkJob(c, j); err != nil {
		return err
	}
	c.out = c.out[:0]
	if err := c.grow(listedBytes(j)); err != nil {
		return err
	}
	c.out = appendJobMembers(c.out, j.For(c.viewer()))
	if c.past == nil { // the bucket does not have it
		c.out = appendProgress(c.out, s.b.ProgressOf(id))
		c.out = appendActions(c.out, s.b, j)
	}
	if q.waitsEnd && !ended(j) {
		c.out = append(key(c.out, "waited"), "false"...)
	}
	c.out = append(c.out, '}')
	return c.send()
}

// awaitEnd returns the job when it has ended, or when the time is over. It returns nil if the
// job no longer exists, also if another one has got its id.
func (s *jobs) awaitEnd(c *call, first *fsm.Job, wait time.Duration) (*fsm.Job, error) {
	id := first.ID
	now := func() *fsm.Job {
		if j := s.b.Job(id); j != nil && j.Seq == first.Seq && j.CreatedAt == first.CreatedAt {
			return j
		}
		return nil
	}
	c.holdOff(wait)
	ctx, cancel := s.patience(c, wait)
	defer cancel()
	for {
		err := s.b.WaitEnded(ctx, id)
		// A job that has ended may have been retried since.
		if j := now(); j == nil || err == nil && ended(j) {
			return j, nil
		}
		if why := s.interrupted(c); why != nil {
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

// ended reports whether a job is completed, dead or cancelled. After that it changes only on
// request.
func ended(j *fsm.Job) bool {
	return j.Status == fsm.Completed || j.Status == fsm.Dead || j.Status == fsm.Cancelled
}
