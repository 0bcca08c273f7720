package node

import (
	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// waitLSN is GET /v1/lsn/{lsn}/wait. Each node knows the LSN that it has applied. For the
// bucket only the leader answers, also for an LSN that this node knows to be flushed, because
// only the leader knows whether the archive is damaged.
func (s *node) waitLSN(c *core.Call) error {
	w, err := s.readLSNRequest(c)
	if err != nil {
		return err
	}
	if err := s.MustBeOurs(w.Lsn); err != nil {
		return err
	}
	if w.Object {
		if done, err := s.PassOn(c, w.Wait); done || err != nil {
			return err
		}
	}
	if err := s.reach(c, w); err != nil {
		return err
	}
	if err := s.MustBeOurs(w.Lsn); err != nil { // there may have been an adoption meanwhile
		return err
	}
	at := s.Positions()
	return c.SendJSON(v1.LSNReached{
		LSN: w.Lsn.String(), Level: w.Level, AppliedLSN: at.Applied.String(), FlushedLSN: at.Flushed.String(),
	})
}

func (s *node) readLSNRequest(c *core.Call) (w core.LsnRequest, err error) {
	if w.Lsn, err = fsm.ParseLSN(c.Name); err != nil {
		return w, core.Fail(core.BadRequest, "the LSN in the path: %s", core.Shown(err.Error()))
	}
	w.Level, w.Wait = v1.AckQuorum, s.Config.Timeouts.Object
	if given := c.Params.Get(v1.ParamLevel); given != "" {
		if w.Level = given; !core.IsAck(given) {
			return w, core.Fail(core.BadRequest, "%s is %q; must be %s or %s", v1.ParamLevel, core.Shown(given), v1.AckQuorum, v1.AckObject)
		}
	}
	w.Object = w.Level == v1.AckObject
	if given := c.Params.Get(v1.ParamWaitMs); given != "" {
		w.Wait, err = s.WaitParam(v1.ParamWaitMs, given)
	}
	return w, err
}

// reach waits until this node knows that the LSN has reached its level.
func (s *node) reach(c *core.Call, w core.LsnRequest) error {
	if w.ReachedAt(s.Positions()) {
		if w.Object { // the archive may be damaged, or this node may lead no more
			return s.Node.WaitFlushed(c.Context(), fsm.LSN{})
		}
		return nil
	}
	wait := s.Node.WaitApplied
	if w.Object {
		wait = s.Node.WaitFlushed
	}
	c.HoldOff(w.Wait)
	ctx, cancel := s.Patience(c, w.Wait)
	defer cancel()
	err := wait(ctx, w.Lsn)
	if err == nil {
		return nil
	}
	if why := s.Interrupted(c); why != nil {
		return why
	}
	if ctx.Err() == nil {
		return err
	}
	return s.notReached(w)
}

func (s *node) notReached(w core.LsnRequest) error {
	at := s.Positions()
	f := core.Fail(core.Late, "this node did not apply %s within %s (it is at %s); repeat the request", w.Lsn, w.Wait, at.Applied)
	if w.Object {
		f = core.Fail(core.Late, "%s is not in the bucket after %s (it has %s); repeat the request", w.Lsn, w.Wait, at.Flushed)
	}
	f.Reached = &at
	return f
}
