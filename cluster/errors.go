package cluster

import "errors"

// Errors of a node. All but ErrUnknown mean that nothing was committed.
var (
	// ErrNotLeader: this node is not the active leader. Leader names the one
	// that is, if known.
	ErrNotLeader = errors.New("this node is not the active leader")
	// ErrOverloaded: the buffer of proposals is full. Retry after a moment.
	ErrOverloaded = errors.New("too many writes are waiting; retry after a moment")
	// ErrTooLarge: a mutation exceeds what one log entry may hold.
	ErrTooLarge = errors.New("the write is too large for one log entry; split it")
	// ErrUnknown: leadership was lost, or time ran out, after the mutation was
	// handed to raft. It may be committed, now or later. Retry with the same
	// ids: the machine recognises what it has already done.
	ErrUnknown = errors.New("the outcome of the write is not known; it may have been committed")
	// ErrClosed: the node is shutting down.
	ErrClosed = errors.New("the node is shutting down")
)
