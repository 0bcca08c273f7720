// Package jobs adds, shows and changes jobs and batches. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package jobs

import (
	"net/http"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

// jobs adds, shows and changes jobs and batches.
type jobs struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(c *core.Core) []core.Route {
	s, one, page := &jobs{c}, core.ByID(v1.PathJobs), []string{v1.ParamLimit, v1.ParamCursor}
	const get, post = http.MethodGet, http.MethodPost
	return []core.Route{
		{Method: post, Path: v1.PathJobs, Busy: true, At: core.LeaderOnly, Right: auth.Enqueue, Lenient: true, Legacy: core.ByLegacy, Handle: s.enqueue},
		{Method: post, Path: v1.PathJobsBatch, Busy: true, At: core.LeaderOnly, Right: auth.Enqueue, Handle: s.enqueueBatch},

		{Method: get, Path: one, Busy: true, At: core.UpToDate, Right: auth.Follow | auth.Read, Past: true, AwaitsEnd: true, Legacy: core.ByCompat, Handle: s.job},
		{Method: get, Path: one + "/" + v1.ActionGraph, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.jobGraph, Params: page[:1]},
		{Method: get, Path: v1.PathJobs, At: core.UpToDate, Right: auth.Read, Past: true, Legacy: core.ByLegacy, Handle: s.listJobs, Params: listParams},
		{Method: get, Path: v1.PathCount, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.countJobs, Params: listParams},

		{Method: http.MethodPatch, Path: one, At: core.LeaderOnly, Right: auth.Manage, Handle: core.With(s.edit)},
		{Method: post, Path: one + "/" + v1.ActionCancel, At: core.LeaderOnly, Right: auth.Manage, Handle: s.changeOne(fsm.CancelJobs)},
		{Method: post, Path: one + "/" + v1.ActionRetry, At: core.LeaderOnly, Right: auth.Manage, Handle: s.changeOne(fsm.RetryJobs)},
		{Method: http.MethodDelete, Path: one, At: core.LeaderOnly, Right: auth.Manage, Handle: s.changeOne(fsm.DeleteJobs)},
		{Method: post, Path: v1.PathCancel, At: core.LeaderOnly, Right: auth.Manage, Handle: s.changeMany(fsm.CancelJobs)},
		{Method: post, Path: v1.PathRetry, At: core.LeaderOnly, Right: auth.Manage, Handle: s.changeMany(fsm.RetryJobs)},
		{Method: post, Path: v1.PathDelete, At: core.LeaderOnly, Right: auth.Manage, Handle: s.changeMany(fsm.DeleteJobs)},

		{Method: post, Path: one + "/" + v1.ActionSignals + "/{name}", At: core.LeaderOnly, Right: auth.Enqueue | auth.Manage, Handle: s.sendSignal},
		{Method: post, Path: one + "/" + v1.ActionLinks, At: core.LeaderOnly, Right: auth.Enqueue | auth.Manage, Handle: core.With(s.makeLink)},
		{Method: post, Path: core.ByName(v1.PathLinks), At: core.LeaderOnly, Right: auth.Public, Handle: s.followLink},

		{Method: post, Path: v1.PathArtefacts, At: core.LeaderOnly, Right: auth.Enqueue | auth.Work, Handle: core.With(s.reserve)},
		{Method: get, Path: one + "/" + v1.ActionArtefacts, At: core.UpToDate, Right: auth.Follow | auth.Read, Past: true, Handle: s.listArtefacts},

		{Method: post, Path: v1.PathBatches, At: core.LeaderOnly, Right: auth.Enqueue | auth.Work, Handle: core.With(s.createBatch)},
		{Method: get, Path: v1.PathBatches, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.listBatches, Params: page},
		{Method: get, Path: core.ByID(v1.PathBatches), At: core.UpToDate, Right: auth.Follow | auth.Read, Past: true, Handle: s.showBatch},
		{Method: post, Path: core.ByID(v1.PathBatches) + "/" + v1.ActionRetry, At: core.LeaderOnly, Right: auth.Manage, Handle: core.With(s.retryFlow)},
	}
}

// job is GET /v1/jobs/{id}. With waitMs it waits for the end of the job.
func (s *jobs) job(c *core.Call) error {
	q, err := c.ReadQuery()
	if err != nil {
		return err
	}
	j := c.State().Job(c.Name)
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
	if err := c.Grow(listedBytes(j) + core.StepBytes(j.Details())); err != nil {
		return err
	}
	c.Out = core.AppendJobMembers(c.Out, j.For(c.Viewer()))
	c.Out = core.TextIf(c.Out, "waitsForLimit", c.Named(waitsForLimit(c, j)))
	if c.Past == nil { // the bucket does not have it
		c.Out = core.AppendProgress(c.Out, s.Node.ProgressOf(c.Name))
		c.Out = core.AppendActions(c.Out, s.Node, j)
	}
	c.Out = core.AppendSteps(c.Out, j.Details())
	c.Out = core.AppendArtefacts(c.Out, c.State().View(), j.ID)
	if q.WaitsEnd && !core.Ended(j) {
		c.Out = append(core.Key(c.Out, "waited"), "false"...)
	}
	c.Out = append(c.Out, '}')
	return c.Send()
}

// waitsForLimit returns the first limit of an available job that has no room, or "". The state knows the limit under which a
// claim has parked the job, which can be out of date: it may have room again, or be held since. Whether a limit without parked
// jobs has a permit is not known.
func waitsForLimit(c *core.Call, j *fsm.Job) string {
	if j.Status != fsm.Unclaimed || len(j.Options().Limits) == 0 {
		return ""
	}
	v := c.State().View()
	parked := v.WaitsForLimit(j)
	for _, key := range j.Options().Limits {
		use := c.State().LimitUse(key)
		full := use.Rule.GetRunning() > 0 && int64(use.Running) >= use.Rule.GetRunning()
		if full || use.HeldUntil != 0 || key == parked && v.Limit(key).GetOpensAtMs() != 0 {
			return key
		}
	}
	return ""
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
