package core

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
)

// readQuery is the requested freshness of a read.
type readQuery struct {
	leader bool          // said so, or said nothing else
	anyway bool          // also while another cluster may have taken the queue over
	min    fsm.LSN       // zero: none
	wait   time.Duration // at most, until it is
	// WaitsEnd: the read waits for the end of the job, at most for End.
	WaitsEnd bool
	End      time.Duration // the time of the answer, beyond that of other reads
}

// readParams parses the query of a call that may use it. Older clients may send any query with a write: other
// parameters are ignored, except under strict handling.
func (c *Call) readParams() (err error) {
	rt := c.Route
	used := len(rt.Params) > 0 || rt.Past || rt.At == UpToDate || rt.At == InMemory && !rt.Waits ||
		rt.At == LeaderOnly && (c.Strict || strings.Contains(c.RawQuery, v1.ParamAck))
	if c.RawQuery == "" || !used {
		return nil
	}
	if c.Params, err = url.ParseQuery(c.RawQuery); err != nil {
		return Fail(BadRequest, "the query is not valid: %s", Shown(err.Error()))
	}
	return cmp.Or(c.checkOnce(), c.checkKnown())
}

// checkOnce refuses parameters that occur several times, because only one of the values would
// count. Streams of events accept several.
func (c *Call) checkOnce() error {
	if c.Route.Path == v1.PathEvents {
		return nil
	}
	for name, all := range c.Params {
		if name == v1.ParamTag && c.Route.At == UpToDate && c.Route.knows(name) {
			continue // the jobs of a list have all of them
		}
		// Writes have always ignored unknown parameters.
		if len(all) > 1 && (c.Route.At != LeaderOnly || c.Strict || c.Route.knows(name)) {
			return Bad(Shown(name), "occurs %d times in the query; give one value", len(all))
		}
	}
	return nil
}

func (c *Call) ReadQuery() (readQuery, error) {
	q := readQuery{leader: true, wait: c.Core.Config.Timeouts.Fresh}
	var err error
	if text := c.Params.Get(v1.ParamMinLSN); text != "" {
		q.leader = false
		if q.min, err = fsm.ParseLSN(text); err != nil {
			return q, Fail(BadRequest, "%s: %s", v1.ParamMinLSN, Shown(err.Error()))
		}
	}
	if text := c.Params.Get(v1.ParamWaitMs); text != "" {
		wait := &q.wait
		if c.Route.AwaitsEnd {
			wait, q.WaitsEnd = &q.End, true
		}
		if *wait, err = c.Core.WaitParam(v1.ParamWaitMs, text); err != nil {
			return q, err
		}
		if q.wait == 0 && q.min.IsZero() { // it asks for no LSN, so there is nothing to wait for but the leader
			q.wait = c.Core.Config.Timeouts.Fresh
		}
	}
	if c.WantsAll() {
		q.End = c.Core.Config.Timeouts.Answer // the pages come as they are read
	}
	switch text := c.Params.Get(v1.ParamConsistency); {
	case text == "":
	case text == v1.ConsistencyLeader:
		q.leader = true
	case text == v1.ConsistencyLocal:
		q.leader = false
	case text == v1.ConsistencyLegacy && c.ofNode():
		q.leader, q.anyway = true, true
	default:
		return q, Fail(BadRequest, "%s is %q; must be %s or %s", v1.ParamConsistency, Shown(text),
			v1.ConsistencyLeader, v1.ConsistencyLocal)
	}
	return q, nil
}

func (s *Core) WaitParam(name, text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 {
		return 0, Fail(BadRequest, "%s is %q; must be a number of milliseconds", name, Shown(text))
	}
	return s.BoundedWait(ms), nil
}

// BoundedWait returns the requested wait, at most the limit.
func (s *Core) BoundedWait(ms int64) time.Duration {
	return time.Duration(min(ms, s.Config.Timeouts.Wait.Milliseconds())) * time.Millisecond
}

// freshen returns when the local state is as fresh as the read requires. If done is true, the
// leader has answered the read.
func (s *Core) freshen(c *Call) (done bool, err error) {
	q, err := c.ReadQuery()
	if err != nil {
		return false, err
	}
	if q.leader {
		if done, err := s.PassOn(c, q.wait+q.End); done || err != nil {
			return done, err
		}
	} else if q.min.IsZero() {
		return false, nil
	}
	if q.wait > s.Config.Timeouts.Fresh {
		c.HoldOff(q.wait)
	}
	ctx, cancel := s.Patience(c, q.wait)
	defer cancel()
	if q.leader {
		// This cluster accepts no write meanwhile.
		if err := s.Node.Linearize(ctx); err != nil && (!q.anyway || !errors.Is(err, cluster.ErrFlushLag)) {
			return false, s.stale(ctx, c, err, q)
		}
	}
	return false, s.reach(ctx, c, q)
}

// reach waits until this node has applied the LSN of a read, if it has one.
func (s *Core) reach(ctx context.Context, c *Call, q readQuery) error {
	if q.min.IsZero() {
		return nil
	}
	if err := s.MustBeOurs(q.min); err != nil {
		return err
	}
	if err := s.Node.WaitApplied(ctx, q.min); err != nil {
		return s.stale(ctx, c, err, q)
	}
	return s.MustBeOurs(q.min) // there may have been an adoption meanwhile
}

// Reach waits until this node has applied the LSN that a call of any node names, if it names one.
func (s *Core) Reach(c *Call) error {
	q, err := c.ReadQuery()
	if err != nil {
		return err
	}
	ctx, cancel := s.Patience(c, q.wait)
	defer cancel()
	return s.reach(ctx, c, q)
}

// stale returns the reason why a read could not be fresh enough.
func (s *Core) stale(ctx context.Context, c *Call, err error, q readQuery) error {
	if why := s.Interrupted(c); why != nil {
		return why
	}
	switch {
	case ctx.Err() == nil:
		return err
	case q.min.IsZero():
		return Fail(Late, "no majority confirmed within %s that this node is still the leader; repeat the request, or use "+
			"%s=%s to read the state of this node", q.wait, v1.ParamConsistency, v1.ConsistencyLocal)
	}
	return Fail(Late, "this node did not apply %s within %s (it is at %s); repeat the request, or use another node",
		q.min, q.wait, s.Node.Status().LSN)
}

// Patience returns a context that ends with the request, with the server, or after
// d.
func (s *Core) Patience(c *Call, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.Context(), d)
	stop := context.AfterFunc(s.Closing, cancel)
	return ctx, func() { stop(); cancel() }
}

var errClientGone = &Failure{Kind: clientGone, Detail: "the client has gone"}

// Interrupted returns the reason why a wait ended early; nil if it did not.
func (s *Core) Interrupted(c *Call) error {
	if cause := context.Cause(c.Context()); cause == ErrRevoked || cause == ErrReplaced { //nolint:errorlint // they are the values
		return cause
	}
	if err := c.Context().Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return errClientGone
	}
	if s.Closing.Err() != nil {
		return Fail(Closing, "this node is shutting down; use another node")
	}
	return nil
}

const PathLSNWait = v1.PathLSN + "/{lsn}/" + v1.ActionWait

// LsnRequest is a request to wait for an LSN.
type LsnRequest struct {
	Lsn    fsm.LSN
	Level  string
	Object bool
	Wait   time.Duration
}

// positions are the LSN that a node has applied, and the one that it knows to be flushed.
type positions struct{ Applied, Flushed fsm.LSN }

func (s *Core) Positions() positions {
	st := s.Node.Status()
	return positions{Applied: st.LSN, Flushed: st.FlushedLSN}
}

// lsnGone is the answer for an LSN if it is unknown whether the LSN was reached.
var lsnGone = Kind{Status: http.StatusGone, Tag: v1.TagLSNGone, Title: "The LSN is from before an adoption"}

// MustBeOurs refuses an LSN of an earlier cluster. After an adoption all LSNs are
// higher, also than those of lost writes: a bucket past such an LSN does not prove
// that it contains the write.
func (s *Core) MustBeOurs(lsn fsm.LSN) error {
	if lsn.IsZero() || lsn.Term > s.Node.View().Meta().TermBase {
		return nil
	}
	at := s.Positions()
	f := Fail(lsnGone, "%s is older than the document that the cluster adopted from the bucket, so the write may be "+
		"lost; check it, or repeat it", lsn)
	f.Reached = &at
	return f
}

func (w LsnRequest) ReachedAt(at positions) bool {
	if w.Object {
		return at.Flushed.Compare(w.Lsn) >= 0
	}
	return at.Applied.Compare(w.Lsn) >= 0
}
