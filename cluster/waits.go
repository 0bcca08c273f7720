package cluster

import (
	"context"

	"osqueue/cluster/notify"
	"osqueue/fsm"
)

// Events returns the history of the events that this node has applied. After a start it
// begins with the node's newest snapshot.
func (n *Node) Events() *notify.History { return n.events }

// WaitReady returns nil when a claim of these types may find a job; no types means any
// type. It returns ErrNotLeader when this node is not, or ceases to be, the active
// leader, and otherwise the error of ctx.
func (n *Node) WaitReady(ctx context.Context, types []string) error {
	r := n.active()
	if r == nil {
		return ErrNotLeader
	}
	s := n.ready.Sleep(types)
	defer n.ready.Forget(s)
	if n.holdsReady(types) {
		return nil
	}
	select {
	case <-s.Woken():
		return nil
	case <-r.Over():
		return ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready reports whether a claim of these types would find a job now, or may find one
// because a lease or a schedule is due. In the second case an entry has to let time pass
// first, and the entry that passTime proposes may not be applied yet.
func (n *Node) Ready(types []string) bool {
	r := n.active()
	if r == nil || r.Refusal() != nil {
		return n.holdsReady(types)
	}
	now := r.Now()
	var ready bool
	n.replica.read(func(m *fsm.Machine) { ready = m.Ready(types) || r.Due(m, now) })
	return ready
}

// holdsReady reports whether a job of these types is available.
func (n *Node) holdsReady(types []string) (ready bool) {
	n.replica.read(func(m *fsm.Machine) { ready = m.Ready(types) })
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
