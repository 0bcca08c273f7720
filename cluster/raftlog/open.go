package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
)

// ErrDamaged is wrapped by every error about data on the disk that differs from the written
// data.
var ErrDamaged = errors.New("the raft log is damaged: " +
	"stop this node, delete its data directory and start it again; it gets everything from the others")

// store is the common interface of raft-boltdb and raft-wal.
type store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// Log is a raft log with votes and terms on the disk. It implements raft.LogStore,
// raft.StableStore and raft.MonotonicLogStore, and is safe for concurrent use.
type Log struct {
	store
	votes sync.Mutex // a value and its checksum change together
}

// OpenBolt opens the raft-boltdb of a data directory, and creates it if there is none. The
// error wraps ErrDamaged if the file is damaged.
func OpenBolt(dir string) (*Log, error) {
	path := filepath.Join(dir, "raft.db")
	return inspected(path, func() (store, error) { return openBolt(path) })
}

// OpenWAL opens the raft-wal of a data directory, and creates it if there is none. The
// error wraps ErrDamaged if a file is damaged.
func OpenWAL(dir string, log hclog.Logger) (*Log, error) {
	path := filepath.Join(dir, "wal")
	return inspected(path, func() (store, error) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		if err := checkBolt(filepath.Join(path, metadb.FileName)); err != nil {
			return nil, boltError(err)
		}
		return wal.Open(path, wal.WithLogger(log))
	})
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
		return errors.New("it is in use: does another node run on this data directory?")
	case errors.Is(err, ErrDamaged), errors.As(err, &system):
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrDamaged)
}

// inspected opens a store and reads all of it once.
func inspected(path string, open func() (store, error)) (*Log, error) {
	var db store
	err := shielded(func() (err error) {
		db, err = open()
		if err != nil {
			return err
		}
		l := &Log{store: db}
		return errors.Join(l.readEntries(), l.readVotes())
	})
	if err == nil {
		return &Log{store: db}, nil
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
