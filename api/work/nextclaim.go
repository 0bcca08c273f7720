package work

import (
	"errors"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// nextClaim is the claim that a worker sends with a report. It is proposed in the same entry,
// behind the report, so that it may get a job that the report makes claimable. Its request id
// makes it repeatable, as the token does for the report.
type nextClaim struct {
	claimRequest
	jobs []*fsm.Job
}

// readNextClaim checks the next claim of a worker; nil means none.
func (s *work) readNextClaim(in *v1.NextClaim, worker string) (*nextClaim, error) {
	switch {
	case in == nil:
		return nil, nil
	case worker == fsm.Anonymous:
		return nil, core.Bad("claim", "needs a worker; give workerId in the report")
	case in.RequestID == "":
		return nil, core.Bad("claim.requestId", "is missing; a claim with the same id gets the same jobs if the answer is lost")
	}
	n := new(nextClaim)
	err := s.readClaimRequest(&v1.Claim{
		WorkerID: &worker, Types: in.Types, Max: in.Max, LeaseMs: in.LeaseMs, RequestID: in.RequestID,
		Instance: in.Instance, Confirms: in.Confirms,
	}, &n.claimRequest)
	if err != nil {
		return nil, core.Within(err, "claim")
	}
	return n, nil
}

// proposeReport commits a report, and the worker's next claim behind it. The claim is left out
// if it would find no job, and if only reports are accepted now.
func (s *work) proposeReport(c *core.Call, m *fsmpb.Mutation, n *nextClaim) (fsm.Result, error) {
	if n == nil || n.nothing || s.Node.Refusal() != nil || !s.Node.Remembers(c.Owned(n.op.Worker), n.op.RequestId) && !s.Node.Ready(c.Owned(n.op.Worker), n.op.Types) {
		return s.Propose(c, m)
	}
	claim := &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &n.op}}
	res, lsn, err := s.Gate.Propose(c, m, claim)
	if errors.Is(err, cluster.ErrFlushLag) || errors.Is(err, cluster.ErrOverloaded) {
		return s.Propose(c, m)
	}
	if err != nil {
		return fsm.Result{}, err
	}
	s.Trace(c, claim, res[1], lsn)
	n.jobs, n.again = res[1].Jobs, res[1].Code == fsm.Duplicate
	return s.Committed(c, m, res[0], lsn)
}

// claimed returns the jobs of the claim, if the request had one.
func (n *nextClaim) claimed(c *core.Call) []v1.ClaimedJob {
	if n == nil {
		return nil
	}
	jobs := c.Seen(n.jobs)
	return core.Claimed(jobs, momentOf(c, &n.claimRequest, jobs), c.Core.Node.Job)
}
