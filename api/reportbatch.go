package api

import (
	"context"
	"net/http"

	v1 "osqueue/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *Server) reportBatchRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathComplete, at: leaderOnly, handle: s.completeBatch},
		{method: http.MethodPost, path: v1.PathHeartbeat, at: leaderOnly, handle: s.heartbeatBatch},
	}
}

// completeBatch is POST /v1/jobs/complete: all jobs in one log entry.
func (s *Server) completeBatch(c *call) error {
	var in v1.CompleteBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	worker, err := s.readBatch(in.WorkerID, len(in.Jobs), func(i int) string { return in.Jobs[i].JobID })
	if err != nil {
		return err
	}
	ms := make([]*fsmpb.Mutation, len(in.Jobs))
	for i := range in.Jobs {
		j := &in.Jobs[i]
		ms[i] = completeOf(worker, &fsmpb.Lease{JobId: j.JobID, Token: j.Token}, j.Result)
	}
	ctx, cancel := context.WithTimeout(c.context(), s.cfg.Timeouts.Commit)
	defer cancel()
	results, lsn, err := s.b.ProposeMany(ctx, ms)
	if err != nil {
		return err
	}
	c.lsn = lsn
	return answerBatch(c, len(results), func(i int) (string, fsm.Code) { return in.Jobs[i].JobID, results[i].Code })
}

// heartbeatBatch is POST /v1/jobs/heartbeat.
func (s *Server) heartbeatBatch(c *call) error {
	var in v1.HeartbeatBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	worker, err := s.readBatch(in.WorkerID, len(in.Jobs), func(i int) string { return in.Jobs[i].JobID })
	if err != nil {
		return err
	}
	leases := make([]*fsmpb.Lease, len(in.Jobs))
	for i, j := range in.Jobs {
		leases[i] = &fsmpb.Lease{JobId: j.JobID, Token: j.Token}
	}
	res, err := s.propose(c, heartbeatOf(worker, leases))
	if err != nil {
		return err
	}
	return answerBatch(c, len(res.Codes), func(i int) (string, fsm.Code) { return in.Jobs[i].JobID, res.Codes[i] })
}

// readBatch checks what batches of reports have in common.
func (s *Server) readBatch(worker *string, n int, id func(i int) string) (string, error) {
	if err := s.cfg.Limits.checkCount(n); err != nil {
		return "", err
	}
	for i := range n {
		if err := checkJobID(id(i)); err != nil {
			return "", blame(err, i)
		}
	}
	return s.cfg.Limits.worker(worker)
}

// answerBatch answers with a v1.ReportedBatch.
func answerBatch(c *call, n int, of func(i int) (string, fsm.Code)) error {
	b := c.out[:0]
	b = append(b, `{"results":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		id, code := of(i)
		b = text(append(b, '{'), "jobId", id)
		b = append(text(b, "status", code.String()), '}')
	}
	b = append(b, ']')
	b = lsnText(b, c.lsn)
	b = append(b, '}')
	c.out = b
	return c.send()
}
