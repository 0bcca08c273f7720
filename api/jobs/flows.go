package jobs

import (
	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// retryFlow is POST /v1/batches/{id}/retry.
func (s *jobs) retryFlow(c *core.Call, in *v1.RetryFlow) error {
	if in.From == "" {
		return core.Bad("from", "is missing; give the step of a job of the batch, or its id")
	}
	batch := c.Owned(c.OwnedName(core.BatchExists))
	if s.Node.View().Batch(batch) == nil {
		return core.NotThere("batch", "the batch does not exist; it may have been removed after its retention time")
	}
	first, err := s.stepOf(batch, in.From)
	if err != nil {
		return err
	}
	op := &fsmpb.RetryFlow{JobId: first.ID, Seq: first.Seq, Fresh: in.Fresh}
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_RetryFlow{RetryFlow: op}})
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return wrongStatus(err, res.Jobs)
	}
	return c.SendJSON(v1.FlowRetried{Count: res.Count, LSN: c.LsnText()})
}

// stepOf returns the job of a batch that has the name or id. The time is that of the jobs of the batch, of which a flow has few.
func (s *jobs) stepOf(batch, name string) (*fsm.Job, error) {
	if j := s.Node.Job(name); j != nil && j.Options().Batch == batch {
		return j, nil
	}
	var found *fsm.Job
	twice := false
	s.Node.View().List(fsm.Index{Batch: batch}, allStatuses, 0, func(j *fsm.Job) bool {
		if j.Options().Step == name {
			twice, found = found != nil, j
		}
		return !twice
	})
	switch {
	case found == nil:
		return nil, core.NotThere("step", "no job of the batch has that step or id")
	case twice:
		return nil, core.Bad("from", "is the step of several jobs of the batch; give the id of one")
	}
	return found, nil
}
