package leader

import (
	"errors"
	"fmt"
	"time"

	"osqueue/fsm"
)

// Errors of a term. If a call returns one of these, nothing was committed, except for
// ErrUnknown.
var (
	// ErrNotLeader means that this node is not the active leader.
	ErrNotLeader = errors.New("this node is not the active leader")
	// ErrOverloaded means that the buffer of proposals is full. Retry after a moment.
	ErrOverloaded = errors.New("too many writes are waiting; retry after a moment")
	// ErrTooLarge means that a mutation does not fit into one log entry.
	ErrTooLarge = errors.New("the write is too large for one log entry; split it")
	// ErrLevel means that the mutation needs a higher feature level than the cluster has.
	// The leader raises the level when all nodes run a release that knows it.
	ErrLevel = errors.New("this write is not possible until all nodes are upgraded")
	// ErrUnknown means that leadership was lost, or time ran out, after the mutation was
	// handed to raft. It may be committed, now or later. Retry with the same ids: the
	// machine recognises a mutation that it has already applied.
	ErrUnknown = errors.New("the outcome of the write is not known; it may have been committed")
)

// ErrFlushLag means that the bucket has been behind for too long: the node takes no
// writes until the bucket has caught up. The error is a *FlushLagError with the figures,
// or a *RivalError.
var ErrFlushLag = errors.New("the bucket is too far behind; writes are refused until it catches up")

// FlushLagError is an ErrFlushLag with its figures.
type FlushLagError struct {
	Lag   time.Duration // age of the oldest write that the bucket does not have
	Max   time.Duration // --max-flush-lag
	Cause string        // why the last write to the bucket failed; "" if it is only slow
}

// Error returns the lag, its limit and the cause.
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

// ErrArchive means that an object that the document in the bucket needs is missing or
// damaged. The error is an *ArchiveError.
var ErrArchive = errors.New("the archive in the bucket is damaged; a new checkpoint is being written")

// ArchiveError is an ErrArchive with the object.
type ArchiveError struct {
	Key   string // key of the object
	Cause error
	named string // key in the document that leads to the object
	// at is the LSN of the archive that needs the object, if the document does not name it yet.
	at fsm.LSN
}

// Error returns the object and what is wrong with it.
func (e *ArchiveError) Error() string { return fmt.Sprintf("%v: %v", ErrArchive, e.Cause) }

// Unwrap makes it an ErrArchive.
func (*ArchiveError) Unwrap() error { return ErrArchive }

// RivalError is an ErrFlushLag: the leader could not renew its heartbeat for so long that
// another cluster may have taken the document over.
type RivalError struct {
	Silent  time.Duration // time since the start of the last successful write of the document
	Named   bool          // the document may name a standby, which takes over after the broker timeout
	Standby string        // the standbys that are known; "" if there is none
	Cause   string        // why the last write failed; "" if it has not ended
}

// Error returns the duration, the standby and the cause.
func (e *RivalError) Error() string {
	standby, flag := "another cluster", "--max-flush-lag"
	if e.Named {
		standby, flag = "the standby cluster", "--broker-timeout, --rival-policy"
		if e.Standby != "" {
			standby += " (" + e.Standby + ")"
		}
	}
	s := fmt.Sprintf("the heartbeat in the bucket has not been renewed for %v, and %s may have taken the queue over: "+
		"writes are refused until the bucket accepts a write (%s)", e.Silent.Round(100*time.Millisecond), standby, flag)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}

// Unwrap makes it an ErrFlushLag.
func (*RivalError) Unwrap() error { return ErrFlushLag }
