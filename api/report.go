package api

import (
	"net/http"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/clip"
)

func (s *work) reportRoutes() []route {
	const job = v1.PathJobs + "/{id}/"
	return []route{
		{method: http.MethodPost, path: job + v1.ActionComplete, at: leaderOnly, lenient: true, handle: s.complete},
		{method: http.MethodPost, path: job + v1.ActionHeartbeat, at: leaderOnly, lenient: true, handle: s.heartbeat},
		{method: http.MethodPost, path: job + v1.ActionFail, at: leaderOnly, handle: s.fail},
		// The first Python and JavaScript clients sent the error of the handler with it.
		{method: http.MethodPost, path: job + v1.ActionRelease, at: leaderOnly, lenient: true, handle: s.release},
		{method: http.MethodPost, path: job + v1.ActionProgress, at: leaderOnly, handle: s.progress},
		{method: http.MethodPost, path: job + v1.ActionForceComplete, at: leaderOnly, handle: s.forceComplete},
	}
}

// complete is POST /v1/jobs/{id}/complete.
func (s *work) complete(c *call) error {
	var in v1.Complete
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	op, err := completeOf(worker, lease, in.Result, in.Log)
	if err != nil {
		return err
	}
	return s.answerReport(c, op, worker, in.Claim, in.Token != 0)
}

func completeOf(worker string, lease *fsmpb.Lease, result []byte, log string) (*fsmpb.Mutation, error) {
	if len(log) > fsm.LogMax {
		return nil, bad("log", "has %d bytes; at most %d are allowed: send the end of the log", len(log), fsm.LogMax)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{
		Complete: &fsmpb.Complete{Worker: worker, Lease: lease, Result: result, Log: log},
	}}, nil
}

// forceComplete is POST /v1/jobs/{id}/force-complete. It is a separate route, so
// that a missing token cannot lead here.
func (s *work) forceComplete(c *call) error {
	id, err := c.variable()
	if err != nil {
		return err
	}
	var in v1.ForceComplete
	if err := c.decode(&in); err != nil {
		return err
	}
	return s.answerReport(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{
		ForceComplete: &fsmpb.ForceComplete{JobId: id, Result: in.Result},
	}}, "", nil, true)
}

// heartbeat is POST /v1/jobs/{id}/heartbeat.
func (s *work) heartbeat(c *call) error { return s.beat(c, false) }

// progress is POST /v1/jobs/{id}/progress: a heartbeat that must have a progress. No legacy
// client uses it, so it is always strict.
func (s *work) progress(c *call) error { return s.beat(c, true) }

func (s *work) beat(c *call, mustSay bool) error {
	var in v1.Heartbeat
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	if mustSay && in.Progress == nil {
		return bad("progress", "is missing")
	}
	if lease.Progress, err = s.readProgress(in.Progress); err != nil {
		return err
	}
	res, err := s.propose(c, heartbeatOf(worker, []*fsmpb.Lease{lease}))
	if err != nil {
		return err
	}
	if len(res.Codes) == 1 {
		res.Code = res.Codes[0]
	}
	return sendReport(c, res, nil, mustSay || in.Token != 0)
}

// readProgress checks a progress; nil means none. A message that is too long is
// cut, because the lease must still be extended.
func (s *work) readProgress(in *v1.Progress) (*fsmpb.Progress, error) {
	if in == nil {
		return nil, nil
	}
	if in.Percent > percentMax {
		return nil, bad("progress.percent", "is %d; must be from 0 to %d", in.Percent, percentMax)
	}
	return &fsmpb.Progress{Percent: uint32(in.Percent), Message: clip.To(in.Message, s.cfg.Limits.MessageBytes)}, nil
}

const percentMax = 100

func heartbeatOf(worker string, leases []*fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{
		Heartbeat: &fsmpb.Heartbeat{Worker: worker, Leases: leases},
	}}
}

// fail is POST /v1/jobs/{id}/fail.
func (s *work) fail(c *call) error {
	var in v1.Fail
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	op, err := s.failOf(worker, lease, in.Error, in.Retryable, in.DelayMs)
	if err != nil {
		return err
	}
	return s.answerReport(c, op, worker, in.Claim, true)
}

func (s *work) failOf(worker string, lease *fsmpb.Lease, reason string, retryable *bool, delay *int64) (*fsmpb.Mutation, error) {
	if delay != nil {
		if err := checkMs("delayMs", *delay, s.cfg.Limits.Delay); err != nil {
			return nil, err
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker:       worker,
		Lease:        lease,
		Error:        clip.To(reason, s.cfg.Limits.ErrorBytes),
		Permanent:    retryable != nil && !*retryable,
		RetryDelayMs: delay,
	}}}, nil
}

// release is POST /v1/jobs/{id}/release.
func (s *work) release(c *call) error {
	var in v1.Release
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	return s.answerReport(c, releaseOf(worker, lease), worker, nil, true)
}

func releaseOf(worker string, lease *fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: worker, Lease: lease}}}
}

// readReport reads a report on the job of the path into v; worker and token are fields of v.
func (s *work) readReport(c *call, v any, worker **string, token *uint64) (string, *fsmpb.Lease, error) {
	id, err := c.variable()
	if err != nil {
		return "", nil, err
	}
	if err := c.decode(v); err != nil {
		return "", nil, err
	}
	name, err := s.cfg.Limits.worker(*worker)
	return name, &fsmpb.Lease{JobId: id, Token: *token}, err
}

// answerReport commits a report on one job, with the next claim of its worker (nil: none), and
// answers it. If strict is false, as for legacy clients, the answer is a success whatever the
// state of the job is; but a tenant learns that the job is another's.
func (s *work) answerReport(c *call, op *fsmpb.Mutation, worker string, next *v1.NextClaim, strict bool) error {
	n, err := s.readNextClaim(next, worker)
	if err != nil {
		return err
	}
	res, err := s.proposeReport(c, op, n)
	if err != nil {
		return err
	}
	return sendReport(c, res, n, strict || n != nil)
}

// sendReport answers a report that was committed.
func sendReport(c *call, res fsm.Result, next *nextClaim, strict bool) error {
	switch {
	case !strict && (res.Code != fsm.WrongWorker || c.viewer() == ""):
		return c.sendNothing()
	case !res.Code.Done():
		return res.Code.Err()
	}
	var job *fsm.Job
	if len(res.Jobs) == 1 {
		job = res.Jobs[0]
	}
	return sendReported(c, job, res.Code, next)
}

// sendReported answers with a v1.Reported.
func sendReported(c *call, job *fsm.Job, code fsm.Code, next *nextClaim) error {
	c.settle()
	c.out = lsnText(append(c.out[:0], '{'), c.lsn)
	if job != nil {
		c.out = text(c.out, "status", job.Status.String())
	}
	c.out = flagIf(c.out, "duplicate", code == fsm.Duplicate)
	c.out = flagIf(c.out, "cancel", toCancel(job))
	c.out = append(next.append(c, c.out), '}')
	return c.sendSettled()
}

// toCancel reports whether the job runs and its cancellation was requested.
func toCancel(j *fsm.Job) bool {
	return j != nil && j.Status == fsm.InProgress && j.Details().CancelAt != 0
}
