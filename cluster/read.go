package cluster

import (
	"context"
	"errors"
	"fmt"

	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/internal/groupcommit"
	"osqueue/storage/document"
)

// Linearize returns nil once the local state contains every write that was answered
// before the call. It returns ErrNotLeader on every node but the active leader, and ErrFlushLag
// if another cluster may have taken the queue over. The other errors are ErrOverloaded, ErrClosed
// and those of ctx.
func (n *Node) Linearize(ctx context.Context) error {
	before := n.active()
	if before == nil {
		return ErrNotLeader
	}
	if err := before.MayRead(); err != nil {
		return err
	}
	if _, err := n.reads.Do(ctx, struct{}{}); err != nil {
		return readError(err)
	}
	if n.active() != before {
		return ErrNotLeader
	}
	return before.MayRead()
}

// readError translates an error of the batcher to one of this package. A read changes
// nothing, so its outcome is never unknown.
func readError(err error) error {
	switch {
	case errors.Is(err, groupcommit.ErrOverloaded):
		return ErrOverloaded
	case errors.Is(err, groupcommit.ErrClosed):
		return ErrClosed
	default:
		return err
	}
}

// verifyLeader confirms the leadership with a majority once, for all readers that wait.
// Raft may count answers to earlier requests for it (see transport.Outbound). Then verifyLeader
// asks raft again, until a majority has answered requests of this round.
func (n *Node) verifyLeader(ctx context.Context, _ []struct{}) groupcommit.Wait[struct{}] {
	round := n.out.Ask()
	future := n.raft.VerifyLeader()
	return func() ([]struct{}, error) {
		for {
			if err := n.await(ctx, future); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
			}
			if n.out.Majority(round, n.id, n.raft.GetConfiguration().Configuration()) {
				return nil, nil
			}
			future = n.raft.VerifyLeader()
		}
	}
}

// WaitApplied returns nil once this node has applied lsn. The other errors are those of
// ctx, and ErrClosed.
func (n *Node) WaitApplied(ctx context.Context, lsn fsm.LSN) error {
	done, forget := n.replica.reached(lsn)
	defer forget()
	return n.awaitClose(ctx, done)
}

// awaitClose returns nil when ch is closed. The errors are those of ctx, and ErrClosed.
func (n *Node) awaitClose(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return ErrClosed
	}
}

// Document returns the applied state in the form of queue.json. Its header is the one
// that a flush would write now. Document does not write to the bucket.
func (n *Node) Document(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return document.EncodeState(n.replica.freeze()), nil
}

// WaitEnded returns nil once the job has ended (completed, dead, cancelled or expired), or if the
// state that this node has applied does not contain it. Any node can answer. The errors
// are those of ctx, and ErrClosed.
func (n *Node) WaitEnded(ctx context.Context, id string) error {
	ended, forget := n.ends.Wait(id)
	defer forget()
	if j := n.Job(id); j == nil || notify.IsEnd(j.Status) {
		return nil
	}
	return n.awaitClose(ctx, ended)
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
