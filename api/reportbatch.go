package api

import (
	"net/http"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *work) reportBatchRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathComplete, at: leaderOnly, handle: s.completeBatch},
		{method: http.MethodPost, path: v1.PathHeartbeat, at: leaderOnly, handle: s.heartbeatBatch},
		{method: http.MethodPost, path: v1.PathFail, at: leaderOnly, handle: s.failBatch},
		{method: http.MethodPost, path: v1.PathRelease, at: leaderOnly, handle: s.releaseBatch},
	}
}

// completeBatch is POST /v1/jobs/complete.
func (s *work) completeBatch(c *call) error {
	var in v1.CompleteBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	id := func(i int) string { return in.Jobs[i].JobID }
	return s.reportGroup(c, in.WorkerID, in.Claim, len(in.Jobs), id, func(worker string, i int) (*fsmpb.Mutation, error) {
		j := &in.Jobs[i]
		return completeOf(worker, &fsmpb.Lease{JobId: j.JobID, Token: j.Token}, j.Result, j.Log)
	})
}

// failBatch is POST /v1/jobs/fail.
func (s *work) failBatch(c *call) error {
	var in v1.FailBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	id := func(i int) string { return in.Jobs[i].JobID }
	return s.reportGroup(c, in.WorkerID, in.Claim, len(in.Jobs), id, func(worker string, i int) (*fsmpb.Mutation, error) {
		j := &in.Jobs[i]
		return s.failOf(worker, &fsmpb.Lease{JobId: j.JobID, Token: j.Token}, j.Error, j.Retryable, j.DelayMs)
	})
}

// releaseBatch is POST /v1/jobs/release.
func (s *work) releaseBatch(c *call) error {
	var in v1.ReleaseBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	id := func(i int) string { return in.Jobs[i].JobID }
	return s.reportGroup(c, in.WorkerID, nil, len(in.Jobs), id, func(worker string, i int) (*fsmpb.Mutation, error) {
		return releaseOf(worker, &fsmpb.Lease{JobId: in.Jobs[i].JobID, Token: in.Jobs[i].Token}), nil
	})
}

// reportGroup makes n reports of one worker in one mutation, so that a repeated
// request is recognised as a whole. The next claim of the worker (nil: none) follows it.
func (s *work) reportGroup(c *call, workerID *string, claim *v1.NextClaim, n int, id func(i int) string,
	report func(worker string, i int) (*fsmpb.Mutation, error),
) error {
	worker, err := s.readBatch(workerID, n, id)
	if err != nil {
		return err
	}
	next, err := s.readNextClaim(claim, worker)
	if err != nil {
		return err
	}
	ms := make([]*fsmpb.Mutation, n)
	for i := range n {
		if ms[i], err = report(worker, i); err != nil {
			return blame(err, i)
		}
	}
	res, err := s.proposeReport(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: ms}}}, next)
	if err != nil {
		return err
	}
	c.settle()
	c.out = lsnText(appendItems(append(c.out[:0], '{'), res, id), c.lsn)
	c.out = append(next.append(c, c.out), '}')
	return c.sendSettled()
}

// heartbeatBatch is POST /v1/jobs/heartbeat.
func (s *work) heartbeatBatch(c *call) error {
	var in v1.HeartbeatBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	id := func(i int) string { return in.Jobs[i].JobID }
	worker, err := s.readBatch(in.WorkerID, len(in.Jobs), id)
	if err != nil {
		return err
	}
	leases := make([]*fsmpb.Lease, len(in.Jobs))
	for i, j := range in.Jobs {
		leases[i] = &fsmpb.Lease{JobId: j.JobID, Token: j.Token}
		if leases[i].Progress, err = s.readProgress(j.Progress); err != nil {
			return blame(err, i)
		}
	}
	res, err := s.propose(c, heartbeatOf(worker, leases))
	if err != nil {
		return err
	}
	c.out = append(lsnText(appendItems(append(c.out[:0], '{'), res, id), c.lsn), '}')
	return c.send()
}

// readBatch checks the common fields of batches of reports.
func (s *work) readBatch(worker *string, n int, id func(i int) string) (string, error) {
	if err := s.cfg.Limits.checkCount(n); err != nil {
		return "", err
	}
	for i := range n {
		if err := checkJobID("jobId", id(i)); err != nil {
			return "", blame(err, i)
		}
	}
	return s.cfg.Limits.worker(worker)
}

// appendItems appends the results of a batch as a list of v1.ReportedItem.
func appendItems(b []byte, res fsm.Result, id func(i int) string) []byte {
	b = append(key(b, "results"), '[')
	for i, code := range res.Codes {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, '{'), "jobId", id(i))
		b = text(b, "status", code.String())
		b = append(flagIf(b, "cancel", code.Done() && i < len(res.Jobs) && toCancel(res.Jobs[i])), '}')
	}
	return append(b, ']')
}
