package cluster

import (
	"errors"
	"fmt"
	"syscall"

	"osqueue/cluster/leader"
)

// Errors of a node. If a call returns one of these, nothing was committed, except for
// ErrUnknown.
var (
	// ErrNotLeader means that this node is not the active leader. Node.Leader returns the
	// address of the active leader, if it is known.
	ErrNotLeader = leader.ErrNotLeader
	// ErrOverloaded means that the buffer of proposals is full. Retry after a moment.
	ErrOverloaded = leader.ErrOverloaded
	// ErrTooLarge means that a mutation does not fit into one log entry.
	ErrTooLarge = leader.ErrTooLarge
	// ErrLevel means that the mutation needs a higher feature level than the cluster has.
	// The leader raises the level when all nodes run a release that knows it.
	ErrLevel = leader.ErrLevel
	// ErrUnknown means that leadership was lost, or time ran out, after the mutation was
	// handed to raft. It may be committed, now or later. Retry with the same ids: the
	// machine recognises a mutation that it has already applied.
	ErrUnknown = leader.ErrUnknown
	// ErrClosed means that the node is shutting down.
	ErrClosed = errors.New("the node is shutting down")
)

// ErrFlushLag means that the bucket has been behind for too long: the node takes no
// writes until the bucket has caught up. The error is a *leader.FlushLagError with the
// figures, or a *leader.RivalError.
var ErrFlushLag = leader.ErrFlushLag

// ErrArchive means that an object that the document in the bucket needs is missing or
// damaged. The error is a *leader.ArchiveError.
var ErrArchive = leader.ErrArchive

// explainFull adds to the error of a full disk which disk it is and what to do.
func explainFull(dir string, err error) error {
	var known *fullError
	if !errors.Is(err, syscall.ENOSPC) || errors.As(err, &known) {
		return err
	}
	return &fullError{dir: dir, err: err}
}

// fullError is the error of a node whose disk has no room.
type fullError struct {
	dir string
	err error
}

// Error says which disk is full.
func (e *fullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: make room on it and start the node again: %v", e.dir, e.err)
}

// Unwrap returns the error of the write.
func (e *fullError) Unwrap() error { return e.err }
