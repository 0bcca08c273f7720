package api

import (
	"net/http"
	"strings"

	v1 "osqueue/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *Server) reportRoutes() []route {
	const job = v1.PathJobs + "/{id}/"
	return []route{
		{method: http.MethodPost, path: job + v1.ActionComplete, at: leaderOnly, handle: s.complete},
		{method: http.MethodPost, path: job + v1.ActionHeartbeat, at: leaderOnly, handle: s.heartbeat},
		{method: http.MethodPost, path: job + v1.ActionFail, at: leaderOnly, handle: s.fail},
		{method: http.MethodPost, path: job + v1.ActionRelease, at: leaderOnly, handle: s.release},
	}
}

// complete is POST /v1/jobs/{id}/complete.
func (s *Server) complete(c *call) error {
	var in v1.Complete
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	res, err := s.propose(c, completeOf(worker, lease, in.Result))
	return answerReport(c, res, err, in.Token != 0)
}

func completeOf(worker string, lease *fsmpb.Lease, result []byte) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{
		Complete: &fsmpb.Complete{Worker: worker, Lease: lease, Result: result},
	}}
}

// heartbeat is POST /v1/jobs/{id}/heartbeat.
func (s *Server) heartbeat(c *call) error {
	var in v1.Heartbeat
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	res, err := s.propose(c, heartbeatOf(worker, []*fsmpb.Lease{lease}))
	if err == nil && len(res.Codes) == 1 {
		res.Code = res.Codes[0]
	}
	return answerReport(c, res, err, in.Token != 0)
}

func heartbeatOf(worker string, leases []*fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{
		Heartbeat: &fsmpb.Heartbeat{Worker: worker, Leases: leases},
	}}
}

// fail is POST /v1/jobs/{id}/fail.
func (s *Server) fail(c *call) error {
	var in v1.Fail
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	if err := checkMs("delayMs", in.DelayMs, s.cfg.Limits.Delay); err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker:       worker,
		Lease:        lease,
		Error:        cut(in.Error, s.cfg.Limits.ErrorBytes),
		Permanent:    in.Retryable != nil && !*in.Retryable,
		RetryDelayMs: in.DelayMs,
	}}})
	return answerReport(c, res, err, true)
}

// cut shortens the text of an error. A failure whose text is too long is a
// failure all the same, so it is not refused.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// release is POST /v1/jobs/{id}/release.
func (s *Server) release(c *call) error {
	var in v1.Release
	worker, lease, err := s.readReport(c, &in, &in.WorkerID, &in.Token)
	if err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{
		Release: &fsmpb.Release{Worker: worker, Lease: lease},
	}})
	return answerReport(c, res, err, true)
}

// readReport reads a report on the job of the path into v, of which worker and
// token are members.
func (s *Server) readReport(c *call, v any, worker **string, token *uint64) (string, *fsmpb.Lease, error) {
	id, err := c.segment("id")
	if err != nil {
		return "", nil, err
	}
	if err := c.decode(v); err != nil {
		return "", nil, err
	}
	name, err := s.cfg.Limits.worker(*worker)
	return name, &fsmpb.Lease{JobId: id, Token: *token}, err
}

// answerReport answers a report on one job. Without strict, which is how older
// clients report, it is a success whatever has become of the job.
func answerReport(c *call, res fsm.Result, err error, strict bool) error {
	switch {
	case err != nil:
		return err
	case !strict:
		return c.sendNothing()
	case !res.Code.Done():
		c.stamp(c.Header())
		return res.Code.Err()
	}
	c.out = lsnText(append(c.out[:0], '{'), c.lsn)
	if len(res.Jobs) == 1 && res.Jobs[0] != nil {
		c.out = text(c.out, "status", res.Jobs[0].Status.String())
	}
	if res.Code == fsm.Duplicate {
		c.out = append(key(c.out, "duplicate"), "true"...)
	}
	c.out = append(c.out, '}')
	return c.send()
}
