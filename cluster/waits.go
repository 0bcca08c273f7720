package cluster

import (
	"context"

	"osqueue/cluster/notify"
	"osqueue/fsm"
)

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
