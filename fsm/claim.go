package fsm

import (
	"math"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
)

// The limits of the answer to one claim: the number of jobs, which bounds its record as
// well, and the bytes of payload, which the last job may exceed.
const (
	claimJobsMax  = 16_384
	claimBytesMax = 16 << 20
)

// claim leases up to op.Max jobs; 0 asks for one.
func (e *entry) claim(op *fsmpb.Claim) Result {
	registry{e}.seen(op.Worker)
	if r := e.claims.Of(op.Worker, op.RequestId); r != nil {
		res := Result{Code: Duplicate}
		for i, id := range r.JobIds {
			res.Jobs = e.appendLeased(res.Jobs, id, r.FirstToken+uint64(i), op.Owner)
		}
		return res
	}
	if e.Quiet(op.Worker) {
		return Result{}
	}
	worker := strings.Clone(op.Worker)
	n := min(max(int(op.Max), 1), claimJobsMax, e.counts[Unclaimed])
	jobs := make([]*Job, 0, n)
	from := e.types.candidates(op.Types)
	for bytes := 0; len(jobs) < n && bytes < claimBytesMax; {
		q := from.best()
		if q == nil {
			break
		}
		if at := q.best.ExpiresAt(); at != 0 && at <= e.meta.NowMs { // its timer has not fired yet
			if e.firings <= 0 {
				e.types.arrive(q, 1) // the next claim continues
				break
			}
			e.expire(q.best)
			continue
		}
		if l, to, misplaced := e.types.misplaced(q); misplaced {
			if e.parkings == 0 {
				e.types.arrive(q, n) // the next claim continues
				break
			}
			e.parkings--
			e.types.moveLane(q, l, to)
			continue
		}
		bytes += q.best.PayloadLen() + int(q.best.Details().Kept)
		jobs = append(jobs, e.lease(q, worker, op))
	}
	if op.RequestId != "" && len(jobs) > 0 {
		e.claims.Remember(worker, op.RequestId, jobs, e.meta.NowMs, claimsPerWorker(e.meta))
	}
	return Result{Jobs: jobs}
}

// candidates has the types that a claim takes jobs of.
type candidates struct {
	heads  *btree.Tree[*queue]
	any    bool
	queues []*queue
}

// candidates returns the candidates of a claim. An empty list means every type. In a
// list, the type "" matches no job, not even one without a type.
func (t *types) candidates(names []string) candidates {
	c := candidates{heads: t.heads, any: len(names) == 0}
	for _, name := range names {
		if q := t.queues[name]; q != nil && name != "" {
			c.queues = append(c.queues, q)
		}
	}
	return c
}

// best returns the type whose best job a claim gets, or nil.
func (c candidates) best() (best *queue) {
	if c.any {
		best, _ = c.heads.Min()
		return best
	}
	for _, q := range c.queues {
		if q.best != nil && (best == nil || byClaimOrder(q.best, best.best)) {
			best = q
		}
	}
	return best
}

// Ready reports whether a claim of these types would get a job. Call it from the
// goroutine that owns the machine.
func (m *Machine) Ready(types []string) bool {
	if len(types) == 0 {
		return m.types.heads.Len() > 0
	}
	for _, t := range types {
		if q := m.types.queues[t]; q != nil && t != "" && q.best != nil {
			return true
		}
	}
	return false
}

// lease leases the best job of a type to a worker.
func (e *entry) lease(q *queue, worker string, op *fsmpb.Claim) *Job {
	old := q.best
	e.meta.LastToken++
	j := old.Change()
	j.Status = InProgress
	j.AttemptEnd = NoEnd
	j.Exec.Worker = worker
	j.Attempts = min(j.Attempts, math.MaxInt32-1) + 1
	j.Exec.ClaimedAt, j.Exec.Heartbeat = e.meta.NowMs, e.meta.NowMs
	lease, timeout := int64(0), int64(0)
	if s := q.settings; s != nil {
		lease, timeout = s.LeaseMs, s.TimeoutMs
	}
	j.Exec.HeldMs = firstPositive(op.LeaseMs, j.Exec.LeaseMs, lease, e.meta.Settings.LeaseMs)
	j.Exec.Token = e.meta.LastToken
	j.Exec.Instance = op.Instance
	j.Exec.Unconfirmed = op.Confirms && e.types.exhausted(j) && old.Details().GivenBack < giveBackMax
	timeout = firstPositive(old.Options().TimeoutMs, timeout)
	if timeout > 0 || old.Det != nil || op.Owner != 0 {
		j.ChangeDetails(func(d *Details) {
			d.TimeoutMs, d.Progress, d.ProgressAt, d.Owner = timeout, Progress{}, 0, op.Owner
		})
	}
	e.put(old, j)
	e.types.takePermit(q)
	e.types.served(q, j.InGroup())
	if len(old.Options().Limits) > 0 {
		e.types.takeKeys(q, j)
	}
	return j
}

func firstPositive(values ...int64) int64 {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

// Remembers reports whether the machine still keeps the answer to that worker's claim, so
// that a repetition gets the same jobs. It does not keep claims that got no job. It takes
// constant time and reads live state, as Job and Ready do.
func (m *Machine) Remembers(worker, requestID string) bool {
	return m.claims.Of(worker, requestID) != nil
}

// appendLeased appends the job of a lease that a claim is repeated for, if the lease is still valid and
// no other owner claimed the job.
func (m *Machine) appendLeased(jobs []*Job, id string, token, owner uint64) []*Job {
	if j := m.ids.Get(id); j != nil && j.Status == InProgress && j.Execution().Token == token && owned(j, owner) {
		return append(jobs, j)
	}
	return jobs
}
