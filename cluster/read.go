package cluster

import (
	"context"
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/internal/groupcommit"
	"osqueue/storage/queuefile"
)

// Linearize returns once the local state is certain to hold every write that
// was answered before the call. Only the active leader can say that; elsewhere
// it is ErrNotLeader.
func (n *Node) Linearize(ctx context.Context) error {
	before := n.active()
	if before == nil {
		return ErrNotLeader
	}
	if _, err := n.reads.Do(ctx, struct{}{}); err != nil {
		return readError(err)
	}
	if n.active() != before {
		return ErrNotLeader
	}
	return nil
}

// readError translates the batcher's view of a read: nothing was changed, so
// nothing is unknown.
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

// verifyLeader is one round to a majority on behalf of all readers that wait. Raft may
// take answers for it that were under way before (outbound); then it is asked again,
// at most as often as answers can be under way.
func (n *Node) verifyLeader(ctx context.Context, _ []struct{}) groupcommit.Wait[struct{}] {
	round := n.out.ask()
	future := n.raft.VerifyLeader()
	return func() ([]struct{}, error) {
		for {
			if err := n.waitFuture(ctx, future); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
			}
			if n.out.majority(round, n.id, n.raft.GetConfiguration().Configuration()) {
				return nil, nil
			}
			future = n.raft.VerifyLeader()
		}
	}
}

// WaitApplied returns once this node has applied lsn.
func (n *Node) WaitApplied(ctx context.Context, lsn fsm.LSN) error {
	done, forget := n.replica.reached(lsn)
	defer forget()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return ErrClosed
	}
}

// Document is the applied state in the form of queue.json. The header is that
// of a flush at this moment, without a write of its own.
func (n *Node) Document(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v := n.replica.freeze()
	m := v.Meta()
	return queuefile.Encode(queuefile.Inline(v), queuefile.Header{
		Lineage: m.Lineage,
		Cluster: m.Cluster,
		Epoch:   m.Broker.Epoch,
		Node:    m.Broker.Node,
	}, m.Broker.Address, m.Now), nil
}
