package work

import (
	"cmp"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/onerror"
	"osqueue/internal/limit"
)

// complete is POST /v1/jobs/{id}/complete.
func (s *work) complete(c *core.Call, in *v1.Complete) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
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
		return nil, core.Bad("log", "has %d bytes; at most %d are allowed: send the end of the log", len(log), fsm.LogMax)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{
		Complete: &fsmpb.Complete{Worker: worker, Lease: lease, Result: result, Log: log},
	}}, nil
}

// forceComplete is POST /v1/jobs/{id}/force-complete. It is a separate route, so
// that a missing token cannot lead here.
func (s *work) forceComplete(c *core.Call, in *v1.ForceComplete) error {
	return s.answerReport(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{
		ForceComplete: &fsmpb.ForceComplete{JobId: c.Name, Result: in.Result},
	}}, "", nil, true)
}

// heartbeat is POST /v1/jobs/{id}/heartbeat.
func (s *work) heartbeat(c *core.Call, in *v1.Heartbeat) error { return s.beat(c, in, false) }

// progress is POST /v1/jobs/{id}/progress: a heartbeat that must have a progress. No legacy
// client uses it, so it is always strict.
func (s *work) progress(c *core.Call, in *v1.Heartbeat) error { return s.beat(c, in, true) }

func (s *work) beat(c *core.Call, in *v1.Heartbeat, mustSay bool) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err != nil {
		return err
	}
	if mustSay && in.Progress == nil {
		return core.Bad("progress", "is missing")
	}
	if lease.Progress, err = s.readProgress(in.Progress); err != nil {
		return err
	}
	res, err := s.Propose(c, heartbeatOf(worker, []*fsmpb.Lease{lease}))
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
		return nil, core.Bad("progress.percent", "is %d; must be from 0 to %d", in.Percent, percentMax)
	}
	return &fsmpb.Progress{Percent: uint32(in.Percent), Message: limit.Clip(in.Message, s.Config.Limits.MessageBytes)}, nil
}

const percentMax = 100

func heartbeatOf(worker string, leases []*fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{
		Heartbeat: &fsmpb.Heartbeat{Worker: worker, Leases: leases},
	}}
}

// fail is POST /v1/jobs/{id}/fail.
func (s *work) fail(c *core.Call, in *v1.Fail) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err != nil {
		return err
	}
	op, err := s.failOf(worker, lease, in.Error, in.Class, in.Retryable, in.DelayMs)
	if err != nil {
		return err
	}
	return s.answerReport(c, op, worker, in.Claim, true)
}

func (s *work) failOf(worker string, lease *fsmpb.Lease, reason, class string, retryable *bool, delay *int64) (*fsmpb.Mutation, error) {
	if delay != nil {
		if err := core.CheckMs("delayMs", *delay, s.Config.Limits.Delay); err != nil {
			return nil, err
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker:       worker,
		Lease:        lease,
		Error:        limit.Clip(reason, s.Config.Limits.ErrorBytes),
		Class:        limit.Clip(class, onerror.ClassMax),
		Permanent:    retryable != nil && !*retryable,
		RetryDelayMs: delay,
	}}}, nil
}

// release is POST /v1/jobs/{id}/release.
func (s *work) release(c *core.Call, in *v1.Release) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err != nil {
		return err
	}
	op, err := s.releaseOf(worker, lease, in.DelayMs)
	if err != nil {
		return err
	}
	return s.answerReport(c, op, worker, nil, true)
}

func (s *work) releaseOf(worker string, lease *fsmpb.Lease, delay int64) (*fsmpb.Mutation, error) {
	if err := core.CheckMs("delayMs", delay, s.Config.Limits.Delay); err != nil {
		return nil, err
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{
		Release: &fsmpb.Release{Worker: worker, Lease: lease, DelayMs: delay},
	}}, nil
}

var errNoSuchKey = core.NotThere("job or limit", "the job does not exist, or its limits do not have the key")

// throttle is POST /v1/jobs/{id}/throttle.
func (s *work) throttle(c *core.Call, in *v1.Throttle) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err = cmp.Or(err, core.CheckLimit("limit", in.Limit, false), core.CheckMs("forMs", in.ForMs, core.HoldMax)); err != nil {
		return err
	}
	if in.ForMs == 0 {
		return core.Bad("forMs", "is missing or 0; give the length of the hold")
	}
	op := &fsmpb.ThrottleLimit{Key: in.Limit, Worker: worker, Lease: lease, UntilMs: s.Node.Now() + in.ForMs}
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: op}}, errNoSuchKey)
}

// readReport returns the worker and the lease of a report on the job of the path.
func (s *work) readReport(c *core.Call, worker *string, token uint64) (string, *fsmpb.Lease, error) {
	name, err := s.Config.Limits.Worker(worker)
	return name, &fsmpb.Lease{JobId: c.Name, Token: token}, err
}

// answerReport commits a report on one job, with the next claim of its worker (nil: none), and
// answers it. If strict is false, as for legacy clients, the answer is a success whatever the
// state of the job is; but a tenant learns that the job is another's.
func (s *work) answerReport(c *core.Call, op *fsmpb.Mutation, worker string, next *v1.NextClaim, strict bool) error {
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
func sendReport(c *core.Call, res fsm.Result, next *nextClaim, strict bool) error {
	switch {
	case !strict && (res.Code != fsm.WrongWorker || c.Viewer() == ""):
		return c.SendNothing()
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
func sendReported(c *core.Call, job *fsm.Job, code fsm.Code, next *nextClaim) error {
	c.Settle()
	out := &v1.Reported{LSN: c.LsnText(), Duplicate: code == fsm.Duplicate, Cancel: toCancel(job), Claimed: next.claimed(c)}
	if job != nil {
		out.Status = job.Status.String()
	}
	return c.AnswerSettled(out)
}

// toCancel reports whether the job runs and its cancellation was requested.
func toCancel(j *fsm.Job) bool {
	return j != nil && j.Status == fsm.InProgress && j.Details().CancelAt != 0
}
