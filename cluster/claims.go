package cluster

import (
	"context"
	"fmt"

	"osqueue/cluster/leader"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// Claims has the claims that wait for a job on a node. Its methods are safe for concurrent
// use.
type Claims struct {
	ready *notify.Ready
	read  func(func(*fsm.Machine)) // reads the applied state
	term  func() *leader.Term      // the active leader term of this node, or nil
}

// Awaited is the outcome of AwaitClaim. With neither an LSN nor Woken the wait is over.
type Awaited struct {
	Result fsm.Result
	LSN    fsm.LSN // of the entry that has the claim; zero: the claim was not committed
	Woken  bool    // the caller should propose the claim: it may find a job
}

// AwaitClaim waits for a job with a claim, which must not be changed any more. The claim is
// either committed in the entry that makes a job available, or the caller is woken when a job
// is available. When until is closed, AwaitClaim waits no more; if the claim is in an entry
// then, the outcome of the entry decides. The error is ErrNotLeader if this node is not, or
// ceases to be, the active leader, the error of ctx, or one of Propose.
func (c *Claims) AwaitClaim(ctx context.Context, until <-chan struct{}, claim *fsmpb.Mutation) (Awaited, error) {
	r := c.term()
	if r == nil {
		return Awaited{}, ErrNotLeader
	}
	if err := r.CheckLevel([]*fsmpb.Mutation{claim}); err != nil {
		return Awaited{}, err
	}
	s := c.ready.Sleep(claim)
	defer c.ready.Forget(s)
	for {
		a, err := c.sleep(ctx, until, r, s)
		switch {
		case err != nil:
			return Awaited{}, err
		case a != nil:
			return *a, nil
		}
		c.ready.Resume(s) // other claims got the jobs of the entry
	}
}

// sleep waits with a claim until its wait is over in one of the ways of AwaitClaim. It
// returns nothing if the claim was committed without getting a job, and may wait on.
func (c *Claims) sleep(ctx context.Context, until <-chan struct{}, r *leader.Term, s *notify.Sleeper) (*Awaited, error) {
	var a Awaited
	var err error
	if c.mayClaim(s) {
		a.Woken = true
	} else {
		select {
		case answer := <-s.Answered():
			return awaited(&answer)
		case <-s.Woken():
			a.Woken = true
		case <-r.Over():
			err = ErrNotLeader
		case <-until:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if c.ready.Withdraw(s) {
		return &a, err
	}
	select { // the claim is in an entry
	case answer := <-s.Answered():
		if answer.Empty() && (err != nil || isClosed(until)) {
			return &Awaited{}, err
		}
		return awaited(&answer)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// awaited converts the answer of a claim that was in an entry. It returns nothing if the
// answer is empty.
func awaited(a *notify.Answer) (*Awaited, error) {
	switch {
	case a.Err != nil:
		return nil, a.Err
	case a.Empty():
		return nil, nil
	}
	return &Awaited{Result: a.Result, LSN: a.LSN}, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// mayClaim reports whether the claim of a sleeper would find a job now. If its worker is quiet
// it parks the sleeper.
func (c *Claims) mayClaim(s *notify.Sleeper) (ready bool) {
	c.read(func(m *fsm.Machine) {
		if m.Quiet(tenants.Claimant(s.Claim())) {
			c.ready.Park(s)
			return
		}
		ready = m.Ready(s.Claim().GetClaim().GetTypes())
	})
	return ready
}

// Ready reports whether a worker's claim of these types would find a job now, or may find one
// because a lease or a schedule is due. In the second case an entry has to let time pass
// first, and the entry that the leader proposes for that may not be applied yet.
func (c *Claims) Ready(worker string, types []string) (ready bool) {
	r := c.term()
	due := func(*fsm.Machine) bool { return false }
	if r != nil && r.Refusal() == nil {
		now := r.Now()
		due = func(m *fsm.Machine) bool { return r.Due(m, now) }
	}
	c.read(func(m *fsm.Machine) { ready = !m.Quiet(worker) && (m.Ready(types) || due(m)) })
	return ready
}

// ClaimsWaiting returns the number of claims that wait for a job on this node.
func (c *Claims) ClaimsWaiting() int { return c.ready.Sleeping() }

// take takes waiting claims for an entry.
func (c *Claims) take(jobType string, jobs, bytes int) []leader.WaitingClaim {
	sleepers := c.ready.Take(jobType, jobs, bytes)
	taken := make([]leader.WaitingClaim, len(sleepers))
	for i, s := range sleepers {
		taken[i] = leader.WaitingClaim{Claim: s.Claim(), Deliver: func(res fsm.Result, lsn fsm.LSN, err error) {
			s.Deliver(notify.Answer{Result: res, LSN: lsn, Err: err})
		}}
	}
	return taken
}
