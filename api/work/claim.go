// Package work lets workers claim jobs, report on them, and send their logs. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package work

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
)

// work lets workers claim jobs and report on them.
type work struct{ *core.Core }

// Routes returns the operations of the package.
func Routes(c *core.Core) []core.Route {
	s, job, worker := &work{c}, core.ByID(v1.PathJobs)+"/", core.ByName(v1.PathWorkers)
	const get, post = http.MethodGet, http.MethodPost
	return []core.Route{
		{Method: post, Path: v1.PathClaim, Busy: true, At: core.LeaderOnly, Right: auth.Work, Waits: true, Lenient: true, Legacy: core.ByLegacy, Handle: core.With(s.claim)},

		{Method: post, Path: job + v1.ActionComplete, Busy: true, At: core.LeaderOnly, Right: auth.Work, Lenient: true, Legacy: core.ByLegacy, Handle: core.With(s.complete)},
		{Method: post, Path: job + v1.ActionHeartbeat, Busy: true, At: core.LeaderOnly, Right: auth.Work, Lenient: true, Legacy: core.ByLegacy, Handle: core.With(s.heartbeat)},
		{Method: post, Path: job + v1.ActionFail, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.fail)},
		// The first Python and JavaScript clients sent the error of the handler with it.
		{Method: post, Path: job + v1.ActionRelease, At: core.LeaderOnly, Right: auth.Work, Lenient: true, Handle: core.With(s.release)},
		{Method: post, Path: job + v1.ActionProgress, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.progress)},
		{Method: post, Path: job + v1.ActionThrottle, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.throttle)},
		{Method: post, Path: job + v1.ActionArtefacts, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.attach)},
		{Method: post, Path: job + v1.ActionSteps, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.storeStep)},
		{Method: post, Path: job + v1.ActionSuspend, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.suspend)},
		// Not for workers: it completes jobs of other workers as well.
		{Method: post, Path: job + v1.ActionForceComplete, At: core.LeaderOnly, Right: auth.Manage, Legacy: core.ByCompat, Handle: core.With(s.forceComplete)},

		{Method: post, Path: v1.PathComplete, Busy: true, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.completeBatch)},
		{Method: post, Path: v1.PathHeartbeat, Busy: true, At: core.LeaderOnly, Right: auth.Work, Legacy: core.ByCompat, Handle: core.With(s.heartbeatBatch)},
		{Method: post, Path: v1.PathFail, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.failBatch)},
		{Method: post, Path: v1.PathRelease, At: core.LeaderOnly, Right: auth.Work, Handle: core.With(s.releaseBatch)},

		{
			Method: get, Path: job + v1.ActionLogs, At: core.InMemory, Right: auth.Read, Handle: s.followLogs,
			Params: []string{v1.ParamToken, v1.ParamOffset, v1.ParamWaitMs},
		},
		{Method: post, Path: v1.PathLogs, At: core.InMemory, Right: auth.Work, Waits: true, Handle: core.With(s.sendLogs)},

		{Method: post, Path: v1.PathWorkers, At: core.LeaderOnly, Right: auth.Work, Legacy: core.ByCompat, Handle: core.With(s.registerWorker)},
		{
			Method: get, Path: v1.PathWorkers, At: core.UpToDate, Right: auth.Read, Past: true, Handle: s.listWorkers,
			Params: []string{v1.ParamLimit, v1.ParamCursor},
		},
		{Method: get, Path: worker, At: core.UpToDate, Right: auth.Read, Past: true, Legacy: core.ByCompat, Handle: s.showWorker},
		{Method: http.MethodDelete, Path: worker, At: core.LeaderOnly, Right: auth.Manage, Handle: s.markWorkerDead, Params: []string{v1.ParamInstance}},
		{Method: post, Path: worker + "/" + v1.ActionQuiet, At: core.LeaderOnly, Right: auth.Manage, Handle: s.setQuiet(true)},
		{Method: post, Path: worker + "/" + v1.ActionUnquiet, At: core.LeaderOnly, Right: auth.Manage, Handle: s.setQuiet(false)},
	}
}

// claimRequest is a claim request that has been checked.
type claimRequest struct {
	op   fsmpb.Claim
	wait time.Duration
	// nothing: the request names types, but none that a job can have.
	nothing bool
	// again: the request is a repetition, whose leases may be old.
	again bool
}

// claim is POST /v1/jobs/claim.
func (s *work) claim(c *core.Call, in *v1.Claim) error {
	w := new(claimRequest)
	if err := s.readClaimRequest(in, w); err != nil {
		return err
	}
	jobs, err := s.claimWhenAvailable(c, w)
	if err != nil {
		return err
	}
	c.Settle()
	jobs = c.Seen(jobs)
	out := core.Claimed(jobs, momentOf(c, w, jobs), s.Node.Job)
	switch {
	case in.Max != nil:
		return c.AnswerSettled(&v1.Claimed{Jobs: out, LSN: c.LsnText()})
	case len(out) > 0:
		out[0].LSN = c.LsnText()
		return c.AnswerSettled(&out[0])
	}
	return c.AnswerSettled(nothing{})
}

// nothing is the answer to a claim without max if there is no job: an empty object.
type nothing struct{}

func (nothing) AppendJSON(b []byte) ([]byte, error)  { return append(b, '{', '}'), nil }
func (nothing) AppendProto(b []byte) ([]byte, error) { return b, nil }
func (nothing) ParseProto([]byte, int) error         { return nil }

// momentOf returns the time of the answer to a claim.
func momentOf(c *core.Call, w *claimRequest, jobs []*fsm.Job) core.Moment {
	at := core.Moment{Now: c.Core.Node.Now()}
	if w.again && len(jobs) > 0 { // a takeover may have started the leases again
		at.LeasesFrom = c.Core.Node.View().Meta().LeasesFromMs
	}
	return at
}

func (s *work) readClaimRequest(in *v1.Claim, w *claimRequest) (err error) {
	l := &s.Config.Limits
	if w.op.Worker, err = l.Worker(in.WorkerID); err != nil {
		return err
	}
	if in.WorkerID != nil {
		if err = core.CheckReadable("workerId", *in.WorkerID); err != nil {
			return err
		}
	}
	if err = core.CheckMs("leaseMs", in.LeaseMs, l.Lease); err != nil {
		return err
	}
	if in.WaitMs < 0 {
		return core.Bad("waitMs", "is %d; must not be negative", in.WaitMs)
	}
	w.wait = s.BoundedWait(in.WaitMs)
	w.op.Max, w.op.LeaseMs = 1, in.LeaseMs
	if in.Max != nil {
		if *in.Max < 1 {
			return core.Bad("max", "is %d; must be at least 1", *in.Max)
		}
		w.op.Max = uint32(min(int(*in.Max), l.ClaimJobs))
	}
	if w.op.Instance, err = instanceOf(in.Instance); err != nil {
		return err
	}
	w.op.Confirms = in.Confirms
	if err = s.readRequestID(in, w); err != nil {
		return err
	}
	return s.readTypes(in.Types, w)
}

// readRequestID requires a worker name with a request id: all anonymous workers have the same
// name, and would get each other's jobs.
func (s *work) readRequestID(in *v1.Claim, w *claimRequest) error {
	if in.RequestID == "" {
		return nil
	}
	if in.WorkerID == nil {
		return core.Bad("requestId", "needs a workerId: a claim is repeated by the same worker")
	}
	w.op.RequestId = in.RequestID
	return s.Config.Limits.CheckNewName("requestId", in.RequestID)
}

// fewTypes is the number of types up to which a search is faster than a map.
const fewTypes = 16

// readTypes drops types that match no job, and duplicates: a claim sleeps once per type. Its time is
// linear in the number of types.
func (s *work) readTypes(types []string, w *claimRequest) error {
	if len(types) > s.Config.Limits.ClaimTypes {
		return core.Bad("types", "has %d items; a claim may have at most %d", len(types), s.Config.Limits.ClaimTypes)
	}
	var many map[string]struct{} // of w.op.Types
	if len(types) > fewTypes {
		many = make(map[string]struct{}, len(types))
	}
	for i, t := range types {
		if s.Config.Limits.CheckName("", t) != nil {
			return s.Config.Limits.CheckName(fmt.Sprintf("types[%d]", i), t)
		}
		_, known := many[t]
		if t == "" || known || many == nil && slices.Contains(w.op.Types, t) {
			continue
		}
		w.op.Types = append(w.op.Types, t)
		if many != nil {
			many[t] = struct{}{}
		}
	}
	w.nothing = len(types) > 0 && len(w.op.Types) == 0
	return nil
}

// claimWhenAvailable claims as soon as a job is available, and writes nothing before that. While the node
// refuses writes, it does not answer that there is no job, because no client could claim one.
func (s *work) claimWhenAvailable(c *core.Call, w *claimRequest) ([]*fsm.Job, error) {
	if err := s.Node.Refusal(); err != nil {
		return nil, err
	}
	if err := s.Gate.Pass(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &w.op}}); err != nil {
		return nil, err // also if there is no job to claim
	}
	until := time.Now().Add(w.wait)
	leave, err := s.beginWait(c, w)
	if err != nil {
		return nil, err
	}
	defer leave()
	// The machine answers a repeated claim, even if there is no job to claim now.
	repeated := c.Key != "" || s.Node.Remembers(c.Owned(w.op.Worker), w.op.RequestId)
	try := !w.nothing && (repeated || s.Node.Ready(c.Owned(w.op.Worker), w.op.Types))
	for {
		if try {
			m := &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &w.op}}
			res, err := s.Propose(c, m)
			if err != nil || w.answeredBy(c, res) {
				return res.Jobs, err
			}
			c.Lsn = fsm.LSN{} // of an entry that changed nothing
		}
		left := time.Until(until)
		if left <= 0 {
			return nil, nil
		}
		res, answered, err := s.await(c, w, min(left, s.silence()))
		if err != nil || answered {
			return res.Jobs, err
		}
		if try = res.woken; !try {
			s.signOfLife(c, w)
		}
	}
}

// Waiting names what has the places of shares.waits.
const Waiting = "requests that wait for a job or a log (a claim of many types counts more than once)"

// beginWait takes a place among the claims that wait, if this one may wait. The caller frees
// it by leave.
func (s *work) beginWait(c *core.Call, w *claimRequest) (leave func(), err error) {
	if w.wait <= 0 {
		return func() {}, nil
	}
	c.HoldOff(w.wait)
	return c.EnterMany(s.Shares.Waits, core.PlacesOf(len(c.In), len(w.op.Types)), core.TooManyStreams, Waiting)
}

// silence returns how long a registered worker can wait without a keepalive.
func (s *work) silence() time.Duration {
	half := s.Node.View().Meta().Settings.WorkerTimeoutMs / 2
	return time.Duration(max(half, minSilence.Milliseconds())) * time.Millisecond
}

// minSilence prevents busy waiting if the timeout of workers is short.
const minSilence = 500 * time.Millisecond

// beginKeepalive reports whether a keepalive of a worker is due: the worker is
// registered, was not heard of lately, and no other request writes one. Each keepalive is
// a log entry. The caller calls done after the write.
func (s *work) beginKeepalive(name string) (done func(), due bool) {
	if _, underWay := s.Signs.LoadOrStore(name, struct{}{}); underWay {
		return func() {}, false
	}
	done = func() { s.Signs.Delete(name) }
	view := s.Node.View() // newer than the last keepalive
	known := view.Worker(name)
	return done, known != nil && s.Node.Now()-known.LastSeenMs >= view.Meta().Settings.WorkerTimeoutMs/2
}

// signOfLife writes a keepalive for a registered worker while it waits. If the write fails, the
// worker's next claim tries again.
func (s *work) signOfLife(c *core.Call, w *claimRequest) {
	done, due := s.beginKeepalive(c.Owned(w.op.Worker))
	defer done()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(c.Context(), s.Config.Timeouts.Commit)
	defer cancel()
	if err := s.Gate.KeepAlive(ctx, c, heartbeatOf(w.op.Worker, nil)); err != nil {
		s.Log.Debug("cannot keep a waiting worker registered", "worker", w.op.Worker, "reason", err)
	}
}

// answeredBy reports whether a committed claim is answered: it got jobs, or it is a repetition,
// which stays empty if it has no leases any more.
func (w *claimRequest) answeredBy(c *core.Call, res fsm.Result) bool {
	w.again = res.Code == fsm.Duplicate || c.Replayed
	return len(res.Jobs) > 0 || w.again
}

// slept is the outcome of one sleep of a claim.
type slept struct {
	fsm.Result
	woken bool // the claim may find a job
}

// await sleeps until a claim is answered or may find a job, or until the time is over.
func (s *work) await(c *core.Call, w *claimRequest, left time.Duration) (out slept, answered bool, err error) {
	patience, stop := s.Patience(c, left)
	defer stop()
	if w.nothing {
		<-patience.Done()
		return out, false, s.Interrupted(c)
	}
	m := &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &w.op}}
	ctx, cancel := context.WithTimeout(c.Context(), left+s.Config.Timeouts.Commit)
	defer cancel()
	a, err := s.Gate.Await(ctx, c, patience.Done(), m)
	switch {
	case err == nil && !a.LSN.IsZero():
		out.Result, err = s.Committed(c, m, a.Result, a.LSN)
		return out, err == nil && w.answeredBy(c, out.Result), err
	case err == nil && a.Woken:
		return slept{woken: true}, false, nil
	case errors.Is(err, cluster.ErrUnknown):
		return out, false, err
	}
	if why := s.Interrupted(c); why != nil {
		return out, false, why
	}
	return out, false, err
}
