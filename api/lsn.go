package api

import (
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

const pathLSNWait = v1.PathLSN + "/{lsn}/" + v1.ActionWait

func (s *node) lsnRoutes() []route {
	return []route{{
		method: http.MethodGet, path: pathLSNWait, at: anyNode, handle: s.waitLSN,
		params: []string{v1.ParamLevel, v1.ParamWaitMs},
	}}
}

// lsnRequest is a request to wait for an LSN.
type lsnRequest struct {
	lsn    fsm.LSN
	level  string
	object bool
	wait   time.Duration
}

// positions are the LSN that a node has applied, and the one that it knows to be flushed.
type positions struct{ applied, flushed fsm.LSN }

func (s *Core) positions() positions {
	st := s.b.Status()
	return positions{applied: st.LSN, flushed: st.FlushedLSN}
}

// lsnGone is the answer for an LSN if it is unknown whether the LSN was reached.
var lsnGone = kind{status: http.StatusGone, tag: v1.TagLSNGone, title: "The LSN is from before an adoption"}

// waitLSN is GET /v1/lsn/{lsn}/wait. Each node knows the LSN that it has applied. For the
// bucket only the leader answers, also for an LSN that this node knows to be flushed, because
// only the leader knows whether the archive is damaged.
func (s *node) waitLSN(c *call) error {
	w, err := s.readLSNRequest(c)
	if err != nil {
		return err
	}
	if err := s.mustBeOurs(w.lsn); err != nil {
		return err
	}
	if w.object {
		if done, err := s.passOn(c, w.wait); done || err != nil {
			return err
		}
	}
	if err := s.reach(c, w); err != nil {
		return err
	}
	if err := s.mustBeOurs(w.lsn); err != nil { // there may have been an adoption meanwhile
		return err
	}
	at := s.positions()
	return c.sendJSON(v1.LSNReached{
		LSN: w.lsn.String(), Level: w.level, AppliedLSN: at.applied.String(), FlushedLSN: at.flushed.String(),
	})
}

// mustBeOurs refuses an LSN of an earlier cluster. After an adoption all LSNs are
// higher, also than those of lost writes: a bucket past such an LSN does not prove
// that it contains the write.
func (s *Core) mustBeOurs(lsn fsm.LSN) error {
	if lsn.IsZero() || lsn.Term > s.b.View().Meta().TermBase {
		return nil
	}
	at := s.positions()
	f := fail(lsnGone, "%s is older than the document that the cluster adopted from the bucket, so the write may be "+
		"lost; check it, or repeat it", lsn)
	f.reached = &at
	return f
}

func (w lsnRequest) reachedAt(at positions) bool {
	if w.object {
		return at.flushed.Compare(w.lsn) >= 0
	}
	return at.applied.Compare(w.lsn) >= 0
}

func (s *node) readLSNRequest(c *call) (w lsnRequest, err error) {
	text, err := c.variable()
	if err != nil {
		return w, err
	}
	if w.lsn, err = fsm.ParseLSN(text); err != nil {
		return w, fail(badRequest, "the LSN in the path: %s", shown(err.Error()))
	}
	values, err := c.query()
	if err != nil {
		return w, err
	}
	w.level, w.wait = v1.AckQuorum, s.cfg.Timeouts.Object
	if given := values.Get(v1.ParamLevel); given != "" {
		if w.level = given; !isAck(given) {
			return w, fail(badRequest, "%s is %q; must be %s or %s", v1.ParamLevel, shown(given), v1.AckQuorum, v1.AckObject)
		}
	}
	w.object = w.level == v1.AckObject
	if given := values.Get(v1.ParamWaitMs); given != "" {
		w.wait, err = s.waitParam(v1.ParamWaitMs, given)
	}
	return w, err
}

// reach waits until this node knows that the LSN has reached its level.
func (s *node) reach(c *call, w lsnRequest) error {
	if w.reachedAt(s.positions()) {
		if w.object { // the archive may be damaged, or this node may lead no more
			return s.b.WaitFlushed(c.context(), fsm.LSN{})
		}
		return nil
	}
	wait := s.b.WaitApplied
	if w.object {
		wait = s.b.WaitFlushed
	}
	c.holdOff(w.wait)
	ctx, cancel := s.patience(c, w.wait)
	defer cancel()
	err := wait(ctx, w.lsn)
	if err == nil {
		return nil
	}
	if why := s.interrupted(c); why != nil {
		return why
	}
	if ctx.Err() == nil {
		return err
	}
	return s.notReached(w)
}

func (s *node) notReached(w lsnRequest) error {
	at := s.positions()
	f := fail(late, "this node did not apply %s within %s (it is at %s); repeat the request", w.lsn, w.wait, at.applied)
	if w.object {
		f = fail(late, "%s is not in the bucket after %s (it has %s); repeat the request", w.lsn, w.wait, at.flushed)
	}
	f.reached = &at
	return f
}
