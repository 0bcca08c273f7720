package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"osqueue/cluster/raftlog/segment"
)

// ErrDamaged is wrapped by every error about data on the disk that differs from the written
// data.
var ErrDamaged = segment.ErrDamaged

// store is the common interface of raft-boltdb and segmentStore.
type store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// Log is a raft log with votes and terms on the disk. It implements raft.LogStore,
// raft.StableStore and raft.MonotonicLogStore, and is safe for concurrent use.
type Log struct {
	store
	sealed bool       // each entry has a checksum (seal.go); segments have checksums of their own
	votes  sync.Mutex // a value and its checksum change together
}

// OpenBolt opens the log of a data directory as a raft-boltdb. It creates the log if there
// is none, and converts one in segments. The error wraps ErrDamaged if a file is damaged.
func OpenBolt(dir string) (*Log, error) { return newLayout(dir).openBolt() }

// OpenSegments opens the log of a data directory in segments, with votes and terms in a
// raft-boltdb. It creates the log if there is none, and converts a raft-boltdb. The error
// wraps ErrDamaged if a file is damaged. warn is called when the log cannot prepare a segment;
// see segment.Options.
func OpenSegments(dir string, warn func(error)) (*Log, error) {
	return newLayout(dir).openSegments(segment.Options{Warn: warn, Free: freeBytes(dir)})
}

const boltLockTimeout = 2 * time.Second

func openBolt(path string) (store, error) {
	if err := checkBolt(path); err != nil {
		return nil, boltError(err)
	}
	return raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(false)})
}

func boltOptions(readOnly bool) *bbolt.Options {
	return &bbolt.Options{
		Timeout:        boltLockTimeout,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		ReadOnly:       readOnly,
	}
}

// boltError adds the advice for an error of bolt. An error that comes neither from the lock
// nor from the operating system means a damaged file.
func boltError(err error) error {
	var system *fs.PathError
	switch {
	case errors.Is(err, bbolt.ErrTimeout):
		return errors.New("the log is in use: stop the other node that runs on this data directory")
	case errors.Is(err, ErrDamaged), errors.As(err, &system):
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrDamaged)
}

// inspected opens a store and reads all of it once. A segment log reads its entries by
// itself.
func inspected(path string, sealed bool, open func() (store, error)) (*Log, error) {
	var db store
	err := shielded(func() (err error) {
		db, err = open()
		if err != nil {
			return err
		}
		l := &Log{store: db, sealed: sealed}
		if sealed {
			err = l.readEntries()
		}
		return errors.Join(err, l.readVotes())
	})
	if err == nil {
		return &Log{store: db, sealed: sealed}, nil
	}
	err = fmt.Errorf("open the raft log %s: %w", path, err)
	if db != nil {
		// Close of a damaged store may fail, too; the process ends anyway.
		err = errors.Join(err, shielded(db.Close))
	}
	return nil, err
}

// shielded converts a panic to ErrDamaged. Bolt panics on invalid pages, and so does a read
// from a memory map of a file that has become shorter.
func shielded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, p)
		}
	}()
	return fn()
}
