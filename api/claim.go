package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// work lets workers claim jobs and report on them.
type work struct{ *Core }

// workRoutes returns the operations of the package.
func workRoutes(core *Core) []route {
	s := &work{core}
	return slices.Concat(s.claimRoutes(), s.reportRoutes(), s.reportBatchRoutes(), s.logRoutes(), s.workerRoutes())
}

func (s *work) claimRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathClaim, at: leaderOnly, waits: true, lenient: true, handle: s.claim},
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
func (s *work) claim(c *call) error {
	var in v1.Claim
	if err := c.decode(&in); err != nil {
		return err
	}
	w := new(claimRequest)
	if err := s.readClaimRequest(&in, w); err != nil {
		return err
	}
	jobs, err := s.claimWhenAvailable(c, w)
	if err != nil {
		return err
	}
	c.settle()
	jobs = c.seen(jobs)
	at := moment{now: s.b.Now()}
	if w.again && len(jobs) > 0 { // a takeover may have started the leases again
		at.leasesFrom = s.b.View().Meta().LeasesFrom
	}
	if in.Max == nil {
		c.out = appendOne(c.out[:0], jobs, at, c.lsn)
	} else {
		c.out = appendMany(c.out[:0], jobs, at, c.lsn)
	}
	return c.sendSettled()
}

// moment is the time of the answer to a claim, and the earliest time from which leases count.
type moment struct{ now, leasesFrom int64 }

// leaseAge returns the elapsed part of a job's lease.
func (m moment) leaseAge(j *fsm.Job) int64 {
	return max(m.now-max(j.Execution().Heartbeat, m.leasesFrom), 0)
}

// appendOne appends a v1.ClaimedJob with its LSN, or {} if there is none.
func appendOne(b []byte, jobs []*fsm.Job, at moment, lsn fsm.LSN) []byte {
	if len(jobs) == 0 {
		return append(b, '{', '}')
	}
	b = appendClaimed(b, jobs[0], at)
	return append(lsnText(b, lsn), '}')
}

// appendMany appends a v1.Claimed.
func appendMany(b []byte, jobs []*fsm.Job, at moment, lsn fsm.LSN) []byte {
	b = append(b, `{"jobs":[`...)
	for i, j := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendClaimed(b, j, at), '}')
	}
	b = append(b, ']')
	if !lsn.IsZero() {
		b = lsnText(b, lsn)
	}
	return append(b, '}')
}

func (s *work) readClaimRequest(in *v1.Claim, w *claimRequest) (err error) {
	l := &s.cfg.Limits
	if w.op.Worker, err = l.worker(in.WorkerID); err != nil {
		return err
	}
	if in.WorkerID != nil {
		if err = checkReadable("workerId", *in.WorkerID); err != nil {
			return err
		}
	}
	if err = checkMs("leaseMs", in.LeaseMs, l.Lease); err != nil {
		return err
	}
	if in.WaitMs < 0 {
		return bad("waitMs", "is %d; must not be negative", in.WaitMs)
	}
	w.wait = s.boundedWait(in.WaitMs)
	w.op.Max, w.op.LeaseMs = 1, in.LeaseMs
	if in.Max != nil {
		if *in.Max < 1 {
			return bad("max", "is %d; must be at least 1", *in.Max)
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
		return bad("requestId", "needs a workerId: a claim is repeated by the same worker")
	}
	w.op.RequestId = in.RequestID
	return s.cfg.Limits.checkNewName("requestId", in.RequestID)
}

// fewTypes is the number of types up to which a search is faster than a map.
const fewTypes = 16

// readTypes drops types that match no job, and duplicates: a claim sleeps once per type. Its time is
// linear in the number of types.
func (s *work) readTypes(types []string, w *claimRequest) error {
	if len(types) > s.cfg.Limits.ClaimTypes {
		return bad("types", "has %d items; a claim may have at most %d", len(types), s.cfg.Limits.ClaimTypes)
	}
	var many map[string]struct{} // of w.op.Types
	if len(types) > fewTypes {
		many = make(map[string]struct{}, len(types))
	}
	for i, t := range types {
		if s.cfg.Limits.checkName("", t) != nil {
			return s.cfg.Limits.checkName(fmt.Sprintf("types[%d]", i), t)
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
func (s *work) claimWhenAvailable(c *call, w *claimRequest) ([]*fsm.Job, error) {
	if err := s.b.Refusal(); err != nil {
		return nil, err
	}
	if err := s.gate.pass(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &w.op}}); err != nil {
		return nil, err // also if there is no job to claim
	}
	until := time.Now().Add(w.wait)
	leave, err := s.beginWait(c, w)
	if err != nil {
		return nil, err
	}
	defer leave()
	// The machine answers a repeated claim, even if there is no job to claim now.
	repeated := c.key != "" || s.b.Remembers(c.owned(w.op.Worker), w.op.RequestId)
	try := !w.nothing && (repeated || s.b.Ready(c.owned(w.op.Worker), w.op.Types))
	for {
		if try {
			m := &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &w.op}}
			res, err := s.propose(c, m)
			if err != nil || w.answeredBy(c, res) {
				return res.Jobs, err
			}
			c.lsn = fsm.LSN{} // of an entry that changed nothing
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

// waiting names what has the places of shares.waits.
const waiting = "requests that wait for a job or a log (a claim of many types counts more than once)"

// beginWait takes a place among the claims that wait, if this one may wait. The caller frees
// it by leave.
func (s *work) beginWait(c *call, w *claimRequest) (leave func(), err error) {
	if w.wait <= 0 {
		return func() {}, nil
	}
	c.holdOff(w.wait)
	return c.enterMany(s.shares.waits, placesOf(len(c.in), len(w.op.Types)), tooManyStreams, waiting)
}

// silence returns how long a registered worker can wait without a keepalive.
func (s *work) silence() time.Duration {
	half := s.b.View().Meta().Settings.WorkerTimeoutMs / 2
	return time.Duration(max(half, minSilence.Milliseconds())) * time.Millisecond
}

// minSilence prevents busy waiting if the timeout of workers is short.
const minSilence = 500 * time.Millisecond

// heardOf reports whether the last keepalive of a registered worker is so recent that no new
// one has to be written.
func (s *work) heardOf(view *fsm.View, w *fsm.Worker) bool {
	return s.b.Now()-w.LastSeen < view.Meta().Settings.WorkerTimeoutMs/2
}

// beginKeepalive reports whether a keepalive of a worker is due: the worker is
// registered, was not heard of lately, and no other request writes one. Each keepalive is
// a log entry. The caller calls done after the write.
func (s *work) beginKeepalive(name string) (done func(), due bool) {
	if _, underWay := s.signs.LoadOrStore(name, struct{}{}); underWay {
		return func() {}, false
	}
	done = func() { s.signs.Delete(name) }
	view := s.b.View() // newer than the last keepalive
	known := view.Worker(name)
	return done, known != nil && !s.heardOf(view, known)
}

// signOfLife writes a keepalive for a registered worker while it waits. If the write fails, the
// worker's next claim tries again.
func (s *work) signOfLife(c *call, w *claimRequest) {
	done, due := s.beginKeepalive(c.owned(w.op.Worker))
	defer done()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(c.context(), s.cfg.Timeouts.Commit)
	defer cancel()
	if err := s.gate.keepAlive(ctx, c, heartbeatOf(w.op.Worker, nil)); err != nil {
		s.log.Debug("cannot keep a waiting worker registered", "worker", w.op.Worker, "reason", err)
	}
}

// answeredBy reports whether a committed claim is answered: it got jobs, or it is a repetition,
// which stays empty if it has no leases any more.
func (w *claimRequest) answeredBy(c *call, res fsm.Result) bool {
	w.again = res.Code == fsm.Duplicate || c.replayed
	return len(res.Jobs) > 0 || w.again
}

// slept is the outcome of one sleep of a claim.
type slept struct {
	fsm.Result
	woken bool // the claim may find a job
}

// await sleeps until a claim is answered or may find a job, or until the time is over.
func (s *work) await(c *call, w *claimRequest, left time.Duration) (out slept, answered bool, err error) {
	patience, stop := s.patience(c, left)
	defer stop()
	if w.nothing {
		<-patience.Done()
		return out, false, s.interrupted(c)
	}
	m := &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &w.op}}
	ctx, cancel := context.WithTimeout(c.context(), left+s.cfg.Timeouts.Commit)
	defer cancel()
	a, err := s.gate.await(ctx, c, patience.Done(), m)
	switch {
	case err == nil && !a.LSN.IsZero():
		out.Result, err = s.committed(c, m, a.Result, a.LSN)
		return out, err == nil && w.answeredBy(c, out.Result), err
	case err == nil && a.Woken:
		return slept{woken: true}, false, nil
	case errors.Is(err, cluster.ErrUnknown):
		return out, false, err
	}
	if why := s.interrupted(c); why != nil {
		return out, false, why
	}
	return out, false, err
}
