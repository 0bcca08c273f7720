package fsm

import (
	"math"
	"strings"

	"osqueue/fsm/fsmpb"
)

// The limits of remembered claims, by time and by number. When its broker goes away, a
// worker repeats its few open claims within seconds; more records would only make the
// state larger.
const (
	claimMemoryMs      = 60_000
	claimsPerWorkerMax = 256 // many processes may share one name
	claimsMax          = 65_536
)

// The limits of the answer to one claim: the number of jobs, which bounds its record as
// well, and the bytes of payload, which the last job may exceed.
const (
	claimJobsMax  = 16_384
	claimBytesMax = 16 << 20
)

// claim leases up to op.Max jobs; 0 asks for one.
func (m *Machine) claim(op *fsmpb.Claim) Result {
	m.seen(op.Worker)
	if r := m.remembered(op.Worker, op.RequestId); r != nil {
		return Result{Code: Duplicate, Jobs: m.stillHeld(r, op.Owner)}
	}
	if m.Quiet(op.Worker) {
		return Result{}
	}
	worker := strings.Clone(op.Worker)
	n := min(max(int(op.Max), 1), claimJobsMax, m.counts[Unclaimed])
	jobs := make([]*Job, 0, n)
	from := m.candidates(op.Types)
	for bytes := 0; len(jobs) < n && bytes < claimBytesMax; {
		q := from.best()
		if q == nil {
			break
		}
		bytes += len(q.best.payload)
		jobs = append(jobs, m.lease(q, worker, op))
	}
	if op.RequestId != "" && len(jobs) > 0 {
		m.remember(worker, op.RequestId, jobs)
	}
	return Result{Jobs: jobs}
}

// candidates has the types that a claim takes jobs of.
type candidates struct {
	m      *Machine
	any    bool
	queues []*queue
}

// candidates returns the candidates of a claim. An empty list means every type. In a
// list, the type "" matches no job, not even one without a type.
func (m *Machine) candidates(types []string) candidates {
	c := candidates{m: m, any: len(types) == 0}
	for _, t := range types {
		if q := m.queues[t]; q != nil && t != "" {
			c.queues = append(c.queues, q)
		}
	}
	return c
}

// best returns the type whose best job a claim gets, or nil.
func (c candidates) best() (best *queue) {
	if c.any {
		best, _ = c.m.heads.Min()
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
		return m.heads.Len() > 0
	}
	for _, t := range types {
		if q := m.queues[t]; q != nil && t != "" && q.best != nil {
			return true
		}
	}
	return false
}

// lease leases the best job of a type to a worker.
func (m *Machine) lease(q *queue, worker string, op *fsmpb.Claim) *Job {
	old := q.best
	m.meta.Token++
	j := old.Change()
	j.Status = InProgress
	j.AttemptEnd = NoEnd
	j.Exec.Worker = worker
	j.Attempts = min(j.Attempts, math.MaxInt32-1) + 1
	j.Exec.ClaimedAt, j.Exec.Heartbeat = m.meta.Now, m.meta.Now
	lease, timeout := int64(0), int64(0)
	if s := q.settings; s != nil {
		lease, timeout = s.LeaseMs, s.TimeoutMs
	}
	j.Exec.HeldMs = firstPositive(op.LeaseMs, j.Exec.LeaseMs, lease, m.meta.Settings.LeaseMs)
	j.Exec.Token = m.meta.Token
	j.Exec.Instance = op.Instance
	j.Exec.Unconfirmed = op.Confirms && m.exhausted(j) && old.Details().GivenBack < giveBackMax
	timeout = firstPositive(old.Options().TimeoutMs, timeout)
	if timeout > 0 || old.Det != nil || op.Owner != 0 {
		j.changeDetails(func(d *Details) {
			d.TimeoutMs, d.Progress, d.ProgressAt, d.Owner = timeout, Progress{}, 0, op.Owner
		})
	}
	m.put(old, j)
	m.takePermit(q)
	m.served(q, j.group())
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

// claimKey identifies a claim by its request.
type claimKey struct{ worker, request string }

func (r *ClaimRecord) key() claimKey { return claimKey{worker: r.Worker, request: r.RequestID} }

func (r *ClaimRecord) firstToken() uint64 {
	if len(r.Leases) == 0 {
		return 0
	}
	return r.Leases[0].Token
}

// remembered returns the answer to an earlier claim with that request id, or nil. The id
// "" names no request.
func (m *Machine) remembered(worker, requestID string) *ClaimRecord {
	if requestID == "" {
		return nil
	}
	return m.byClaim[claimKey{worker: worker, request: requestID}]
}

// Remembers reports whether the machine still keeps the answer to that worker's claim, so
// that a repetition gets the same jobs. It does not keep claims that got no job. It takes
// constant time and reads live state, as Job and Ready do.
func (m *Machine) Remembers(worker, requestID string) bool {
	return m.remembered(worker, requestID) != nil
}

// stillHeld returns the jobs of a remembered claim whose leases are still valid and that no
// other owner claimed.
func (m *Machine) stillHeld(r *ClaimRecord, owner uint64) []*Job {
	var jobs []*Job
	for _, l := range r.Leases {
		if j := m.ids.Get(l.JobID); j != nil && j.Status == InProgress && j.Execution().Token == l.Token && owned(j, owner) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (m *Machine) remember(worker, requestID string, jobs []*Job) {
	r := &ClaimRecord{
		Worker:    worker,
		RequestID: strings.Clone(requestID),
		ClaimedAt: m.meta.Now,
		Leases:    make([]Lease, len(jobs)),
	}
	for i, j := range jobs {
		r.Leases[i] = Lease{JobID: strings.Clone(j.ID), Token: j.Execution().Token} // the record can outlive the job
	}
	m.addClaim(r)
	m.boundClaims(worker)
}

// addClaim adds r, the newest record.
func (m *Machine) addClaim(r *ClaimRecord) {
	m.claims.Set(r)
	m.byWorker[r.Worker] = append(m.byWorker[r.Worker], r)
	m.byClaim[r.key()] = r
}

// dropClaim removes r, the oldest record of its worker.
func (m *Machine) dropClaim(r *ClaimRecord) {
	m.claims.Delete(r)
	if k := r.key(); m.byClaim[k] == r {
		delete(m.byClaim, k)
	}
	own := m.byWorker[r.Worker]
	own[0] = nil
	if m.byWorker[r.Worker] = own[1:]; len(own) == 1 {
		delete(m.byWorker, r.Worker)
	}
}

// boundClaims removes the oldest records of worker, and of all workers, above the limits.
func (m *Machine) boundClaims(worker string) {
	if own := m.byWorker[worker]; len(own) > m.claimsPerWorker() {
		m.dropClaim(own[0])
	}
	if m.claims.Len() > claimsMax {
		r, _ := m.claims.Min()
		m.dropClaim(r)
	}
}

// forgetClaims removes the records that are too old for a worker to repeat.
func (m *Machine) forgetClaims() {
	for {
		r, ok := m.claims.Min()
		if !ok || later(r.ClaimedAt, claimMemoryMs) >= m.meta.Now {
			return
		}
		m.dropClaim(r)
	}
}
