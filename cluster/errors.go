package cluster

import (
	"errors"
	"fmt"
	"syscall"

	"osqueue/cluster/leader"
)

// Errors of a node; package leader describes them. If a call returns one of these, nothing was
// committed, except for ErrUnknown. Node.Leader returns the address of the active leader, if it is known.
var (
	ErrNotLeader  = leader.ErrNotLeader
	ErrOverloaded = leader.ErrOverloaded
	ErrTooLarge   = leader.ErrTooLarge
	ErrLevel      = leader.ErrLevel
	ErrUnknown    = leader.ErrUnknown
	ErrFlushLag   = leader.ErrFlushLag
	ErrArchive    = leader.ErrArchive
	// ErrClosed means that the node is shutting down.
	ErrClosed = errors.New("the node is shutting down")
)

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
