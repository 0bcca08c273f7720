package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Propose commits one mutation and returns the machine's answer and the LSN of the entry.
// It returns ErrNotLeader on every node but the active leader; the other errors are those
// of this package.
func (n *Node) Propose(ctx context.Context, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error) {
	results, lsn, err := n.ProposeAll(ctx, []*fsmpb.Mutation{m})
	if err != nil {
		return fsm.Result{}, fsm.LSN{}, err
	}
	return results[0], lsn, nil
}

// ProposeAll commits mutations in one entry, in order. It returns one result for each.
func (n *Node) ProposeAll(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	return n.ProposeWithin(ctx, ms, 0)
}

// ProposeWithin is ProposeAll with a limit on the wait, after which it ends as if ctx had
// ended; 0 is no limit. It needs fewer allocations than a context with a deadline. It keeps ms
// until the entry is encoded, which may be after the call if the call ends early.
func (n *Node) ProposeWithin(ctx context.Context, ms []*fsmpb.Mutation, limit time.Duration) ([]fsm.Result, fsm.LSN, error) {
	r := n.active()
	if r == nil {
		return nil, fsm.LSN{}, ErrNotLeader
	}
	return r.ProposeWithin(ctx, ms, limit)
}

// applyEntry hands one encoded log entry to raft. The function that it returns waits for
// the outcome.
func (n *Node) applyEntry(data []byte) func(context.Context) ([]fsm.Result, fsm.LSN, error) {
	future := n.raft.Apply(data, 0)
	return func(ctx context.Context) ([]fsm.Result, fsm.LSN, error) {
		a, err := n.outcome(ctx, future)
		if err != nil {
			return nil, fsm.LSN{}, err
		}
		return a.results, a.lsn, nil
	}
}

// outcome waits until an entry is applied. If ctx ends first, the error is an ErrUnknown:
// the entry may still be committed.
func (n *Node) outcome(ctx context.Context, future raft.ApplyFuture) (*applied, error) {
	if err := n.await(ctx, future); err != nil {
		return nil, raftError(err)
	}
	a, ok := future.Response().(*applied)
	if !ok {
		return nil, fmt.Errorf("%w: raft returned %T for an entry", ErrUnknown, future.Response())
	}
	return a, a.err
}

// raftError returns ErrNotLeader if raft refused the entry, and an ErrUnknown if the
// entry may be committed.
func raftError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ErrNotLeader
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}
