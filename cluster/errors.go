package cluster

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a node. All but ErrUnknown mean that nothing was committed.
var (
	// ErrNotLeader: this node is not the active leader. Leader names the one
	// that is, if known.
	ErrNotLeader = errors.New("this node is not the active leader")
	// ErrOverloaded: the buffer of proposals is full. Retry after a moment.
	ErrOverloaded = errors.New("too many writes are waiting; retry after a moment")
	// ErrTooLarge: a mutation exceeds what one log entry may hold.
	ErrTooLarge = errors.New("the write is too large for one log entry; split it")
	// ErrLevel: the mutation needs a higher feature level than the cluster has. It is
	// raised when all nodes run a release that knows it.
	ErrLevel = errors.New("this write is not possible until all nodes are upgraded")
	// ErrUnknown: leadership was lost, or time ran out, after the mutation was
	// handed to raft. It may be committed, now or later. Retry with the same
	// ids: the machine recognises what it has already done.
	ErrUnknown = errors.New("the outcome of the write is not known; it may have been committed")
	// ErrClosed: the node is shutting down.
	ErrClosed = errors.New("the node is shutting down")
)

// ErrFlushLag means that the bucket has been behind for too long, and that the
// node takes no writes until it has caught up. A *FlushLagError says more.
var ErrFlushLag = errors.New("the bucket is too far behind; writes are refused until it catches up")

// FlushLagError is an ErrFlushLag with its figures.
type FlushLagError struct {
	Lag   time.Duration // age of the oldest write that the bucket does not have
	Max   time.Duration // --max-flush-lag
	Cause string        // why the last write to the bucket failed; "" if it is only slow
}

// Error says what the bucket lacks, and why.
func (e *FlushLagError) Error() string {
	s := fmt.Sprintf("the bucket is %v behind, at most %v are allowed (--max-flush-lag); writes are refused until it catches up",
		e.Lag.Round(time.Second), e.Max)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}

// Unwrap makes it an ErrFlushLag.
func (*FlushLagError) Unwrap() error { return ErrFlushLag }
