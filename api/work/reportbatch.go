package work

import (
	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// completeBatch is POST /v1/jobs/complete.
func (s *work) completeBatch(c *core.Call, in *v1.CompleteBatch) error {
	id := func(i int) string { return in.Jobs[i].JobID }
	return s.reportGroup(c, in.WorkerID, in.Claim, len(in.Jobs), id, func(worker string, i int) (*fsmpb.Mutation, error) {
		j := &in.Jobs[i]
		return completeOf(worker, &fsmpb.Lease{JobId: j.JobID, Token: j.Token}, j.Result, j.Log)
	})
}

// failBatch is POST /v1/jobs/fail.
func (s *work) failBatch(c *core.Call, in *v1.FailBatch) error {
	id := func(i int) string { return in.Jobs[i].JobID }
	return s.reportGroup(c, in.WorkerID, in.Claim, len(in.Jobs), id, func(worker string, i int) (*fsmpb.Mutation, error) {
		j := &in.Jobs[i]
		return s.failOf(worker, &fsmpb.Lease{JobId: j.JobID, Token: j.Token}, j.Error, j.Class, j.Retryable, j.DelayMs)
	})
}

// releaseBatch is POST /v1/jobs/release.
func (s *work) releaseBatch(c *core.Call, in *v1.ReleaseBatch) error {
	id := func(i int) string { return in.Jobs[i].JobID }
	return s.reportGroup(c, in.WorkerID, nil, len(in.Jobs), id, func(worker string, i int) (*fsmpb.Mutation, error) {
		j := &in.Jobs[i]
		return s.releaseOf(worker, &fsmpb.Lease{JobId: j.JobID, Token: j.Token}, j.DelayMs)
	})
}

// reportGroup makes n reports of one worker in one mutation, so that a repeated
// request is recognised as a whole. The next claim of the worker (nil: none) follows it.
func (s *work) reportGroup(c *core.Call, workerID *string, claim *v1.NextClaim, n int, id func(i int) string,
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
			return core.Blame(err, i)
		}
	}
	res, err := s.proposeReport(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: ms}}}, next)
	if err != nil {
		return err
	}
	c.Settle()
	return c.AnswerSettled(&v1.ReportedBatch{Results: itemsOf(res, id), LSN: c.LsnText(), Claimed: next.claimed(c)})
}

// heartbeatBatch is POST /v1/jobs/heartbeat.
func (s *work) heartbeatBatch(c *core.Call, in *v1.HeartbeatBatch) error {
	id := func(i int) string { return in.Jobs[i].JobID }
	worker, err := s.readBatch(in.WorkerID, len(in.Jobs), id)
	if err != nil {
		return err
	}
	leases := make([]*fsmpb.Lease, len(in.Jobs))
	for i, j := range in.Jobs {
		leases[i] = &fsmpb.Lease{JobId: j.JobID, Token: j.Token}
		if leases[i].Progress, err = s.readProgress(j.Progress); err != nil {
			return core.Blame(err, i)
		}
	}
	res, err := s.Propose(c, heartbeatOf(worker, leases))
	if err != nil {
		return err
	}
	return c.Answer(&v1.ReportedBatch{Results: itemsOf(res, id), LSN: c.LsnText()})
}

// readBatch checks the common fields of batches of reports.
func (s *work) readBatch(worker *string, n int, id func(i int) string) (string, error) {
	if err := s.Config.Limits.CheckCount(n); err != nil {
		return "", err
	}
	for i := range n {
		if err := core.CheckJobID("jobId", id(i)); err != nil {
			return "", core.Blame(err, i)
		}
	}
	return s.Config.Limits.Worker(worker)
}

// itemsOf returns the results of a batch.
func itemsOf(res fsm.Result, id func(i int) string) []v1.ReportedItem {
	out := make([]v1.ReportedItem, len(res.Codes))
	for i, code := range res.Codes {
		cancel := code.Done() && i < len(res.Jobs) && toCancel(res.Jobs[i])
		out[i] = v1.ReportedItem{JobID: id(i), Status: code.String(), Cancel: cancel}
	}
	return out
}
