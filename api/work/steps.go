package work

import (
	"cmp"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// storeStep is POST /v1/jobs/{id}/steps.
func (s *work) storeStep(c *core.Call, in *v1.NewStep) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err = cmp.Or(err, core.CheckStep("name", in.Name), core.CheckStepValue(in.Value)); err != nil {
		return err
	}
	if in.Value == nil {
		return core.Bad("value", "is missing; null is a value")
	}
	op := &fsmpb.StoreStep{Worker: worker, Lease: lease, Name: in.Name, Value: in.Value}
	res, err := s.Commit(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_StoreStep{StoreStep: op}}, nil)
	if err != nil {
		return err
	}
	c.Out = core.LsnText(append(c.Out[:0], '{'), c.Lsn)
	if res.Code == fsm.Duplicate {
		c.Out = core.FlagIf(c.Out, "duplicate", true)
		step := res.Jobs[0].Details().Step(in.Name)
		if j := s.Node.Job(c.Name); step == nil && j != nil { // the answer to a repeated request has only an id
			step = j.Details().Step(in.Name)
		}
		c.Out = core.OpaqueIf(c.Out, "value", step.GetValue())
	}
	c.Out = append(c.Out, '}')
	return c.Send()
}

// attach is POST /v1/jobs/{id}/artefacts.
func (s *work) attach(c *core.Call, in *v1.AttachArtefact) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err = cmp.Or(err, core.CheckArtefact("name", in.Name), s.Config.Limits.CheckGiven("id", in.ID)); err != nil {
		return err
	}
	one := &fsmpb.NamedArtefact{Name: in.Name, Id: in.ID}
	if err := s.Uploaded(c, in.ID); err != nil {
		return err
	}
	op := &fsmpb.AttachArtefact{Worker: worker, Lease: lease, Artefact: one}
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_AttachArtefact{AttachArtefact: op}}, nil)
}

// suspend is POST /v1/jobs/{id}/suspend.
func (s *work) suspend(c *core.Call, in *v1.Suspend) error {
	worker, lease, err := s.readReport(c, in.WorkerID, in.Token)
	if err != nil {
		return err
	}
	op := &fsmpb.Suspend{Worker: worker, Lease: lease, UntilMs: in.Until, Signal: in.Signal, Batch: in.BatchID}
	if err := s.readSuspend(in, op); err != nil {
		return err
	}
	return s.answerReport(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Suspend{Suspend: op}}, worker, nil, true)
}

func (s *work) readSuspend(in *v1.Suspend, op *fsmpb.Suspend) error {
	given := 0
	for _, there := range []bool{in.Until != 0, in.ForMs != 0, in.BatchID != ""} {
		if there {
			given++
		}
	}
	switch {
	case given != 1:
		return core.Bad("until", "is not alone or missing; give one of until, forMs and batchId")
	case in.Signal != "" && in.BatchID != "":
		return core.Bad("signal", "cannot be combined with batchId")
	case in.Until != 0 && in.Until < core.SecondsBelow:
		return core.Bad("until", "is %d; must be a time in milliseconds since 1970", in.Until)
	}
	if in.ForMs != 0 {
		op.UntilMs = s.Node.Now() + in.ForMs
	}
	err := cmp.Or(core.CheckMs("forMs", in.ForMs, s.Config.Limits.Delay), s.Config.Limits.CheckID("batchId", in.BatchID))
	if err == nil && in.Signal != "" {
		err = core.CheckStep("signal", in.Signal)
	}
	if err == nil && op.UntilMs > s.Node.Now()+s.Config.Limits.Delay.Milliseconds() {
		err = core.Bad("until", "is too far in the future")
	}
	return err
}
