package cluster

import (
	"context"
	"fmt"

	"osqueue/cluster/leader"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Events returns the history of the events that this node has applied. After a start it
// begins with the node's newest snapshot.
func (n *Node) Events() *notify.History { return n.events }

// ProgressOf returns the progress that a job has reported in the entries that this node has
// applied since its start, oldest first.
func (n *Node) ProgressOf(id string) []notify.ProgressPoint { return n.progress.Progress(id) }

// ActionsOn returns the changes of a job that requests made in the entries that this node has
// applied, oldest first.
func (n *Node) ActionsOn(id string) []notify.Action { return n.progress.Actions(id) }

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
func (n *Node) AwaitClaim(ctx context.Context, until <-chan struct{}, claim *fsmpb.Mutation) (Awaited, error) {
	r := n.active()
	if r == nil {
		return Awaited{}, ErrNotLeader
	}
	if err := r.CheckLevel([]*fsmpb.Mutation{claim}); err != nil {
		return Awaited{}, err
	}
	s := n.ready.Sleep(claim)
	defer n.ready.Forget(s)
	for {
		a, err := n.sleep(ctx, until, r, s)
		if a != nil || err != nil {
			return orZero(a), err
		}
		n.ready.Resume(s) // other claims got the jobs of the entry
	}
}

func orZero(a *Awaited) Awaited {
	if a == nil {
		return Awaited{}
	}
	return *a
}

// sleep waits with a claim until its wait is over in one of the ways of AwaitClaim. It
// returns nothing if the claim was committed without getting a job, and may wait on.
func (n *Node) sleep(ctx context.Context, until <-chan struct{}, r *leader.Term, s *notify.Sleeper) (*Awaited, error) {
	var a Awaited
	var err error
	if n.mayClaim(s) {
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
	if n.ready.Withdraw(s) {
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
func (n *Node) mayClaim(s *notify.Sleeper) (ready bool) {
	n.replica.read(func(m *fsm.Machine) {
		if m.Quiet(fsm.Claimant(s.Claim())) {
			n.ready.Park(s)
			return
		}
		ready = m.Ready(s.Claim().GetClaim().GetTypes())
	})
	return ready
}

// Ready reports whether a worker's claim of these types would find a job now, or may find one
// because a lease or a schedule is due. In the second case an entry has to let time pass
// first, and the entry that passTime proposes may not be applied yet.
func (n *Node) Ready(worker string, types []string) (ready bool) {
	r := n.active()
	due := func(*fsm.Machine) bool { return false }
	if r != nil && r.Refusal() == nil {
		now := r.Now()
		due = func(m *fsm.Machine) bool { return r.Due(m, now) }
	}
	n.replica.read(func(m *fsm.Machine) { ready = !m.Quiet(worker) && (m.Ready(types) || due(m)) })
	return ready
}

// Remembers reports whether the machine remembers the answer to a claim request, so that
// a repeated request would get the same answer.
func (n *Node) Remembers(worker, requestID string) (known bool) {
	n.replica.read(func(m *fsm.Machine) { known = m.Remembers(worker, requestID) })
	return known
}

// WaitEnded returns nil once the job has ended (completed, dead or cancelled), or if the
// state that this node has applied does not contain it. Any node can answer. The errors
// are those of ctx, and ErrClosed.
func (n *Node) WaitEnded(ctx context.Context, id string) error {
	ended, forget := n.ends.Wait(id)
	defer forget()
	if j := n.Job(id); j == nil || notify.IsEnd(j.Status) {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return ErrClosed
	}
}

// WaitFlushed returns nil once lsn is in the bucket. It returns ErrNotLeader on every
// node but the active leader, and when this node ceases to be the active leader. While
// the leader knows that the state cannot be restored from the document, the error is an
// ErrArchive, also for the zero LSN.
func (n *Node) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	r := n.active()
	if r == nil {
		return ErrNotLeader
	}
	return r.WaitFlushed(ctx, lsn)
}
