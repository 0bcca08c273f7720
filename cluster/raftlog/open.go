package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog/segment"
)

// ErrDamaged is wrapped by every error about data on the disk that differs from the written
// data.
var ErrDamaged = segment.ErrDamaged

// Names in a data directory. The directory gets its name when both parts are in it, so a
// part that is missing later was lost.
const (
	dirName     = "raft"
	votesName   = "votes.db" // in it
	entriesName = "log"      // in it

	unfinished = ".tmp" // ends the name of what is being created
)

// Log is a raft log with votes and terms on the disk. It implements raft.LogStore,
// raft.StableStore and raft.MonotonicLogStore, and is safe for concurrent use.
type Log struct {
	*segment.Log
	stable  stableStore
	sealing sync.Mutex // a value and its checksum change together
}

// Open opens the raft log of a data directory. It creates the log if there is none. The error wraps
// ErrDamaged if a file is damaged. warn is called when the log cannot prepare a segment; see
// segment.Options.
func Open(dir string, warn func(error)) (*Log, error) {
	path := filepath.Join(dir, dirName)
	if err := create(path); err != nil {
		return nil, fmt.Errorf("create the raft log %s: %w", path, err)
	}
	var l *Log
	err := shielded(func() (err error) {
		if err := complete(path); err != nil {
			return err
		}
		if l, err = open(path, segment.Options{Warn: warn, Free: freeBytes(dir)}); err != nil {
			return err
		}
		return l.readVotes()
	})
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("open the raft log %s: %w", path, err)
	if l != nil {
		// Close of a damaged store may fail, too; the process ends anyway.
		err = errors.Join(err, shielded(l.Close))
	}
	return nil, err
}

// open opens both parts. The lock on the votes keeps a second process out, so it is taken
// first.
func open(path string, o segment.Options) (*Log, error) {
	votes, err := openBolt(filepath.Join(path, votesName))
	if err != nil {
		return nil, err
	}
	entries, err := segment.Open(segment.Dir(filepath.Join(path, entriesName)), o)
	if err != nil {
		return nil, errors.Join(err, votes.Close())
	}
	return &Log{Log: entries, stable: votes}, nil
}

// Close closes both parts.
func (s *Log) Close() error { return errors.Join(s.Log.Close(), s.stable.Close()) }

// create creates an empty log if there is none. A crash before the rename leaves nothing that
// counts.
func create(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	tmp := path + unfinished
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(filepath.Join(tmp, entriesName), 0o700)); err != nil {
		return err
	}
	l, err := open(tmp, segment.Options{Spares: -1, Free: freeBytes(filepath.Dir(path))})
	if err != nil {
		return err
	}
	if err := errors.Join(l.Close(), segment.Dir(tmp).SyncDir()); err != nil {
		return err
	}
	return errors.Join(os.Rename(tmp, path), segment.Dir(filepath.Dir(path)).SyncDir())
}

// complete checks that neither part is missing. A missing one would be created empty.
func complete(path string) error {
	for _, name := range []string{votesName, filepath.Join(entriesName, segment.MetaName)} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || info.Size() == 0 {
			return errors.Join(fmt.Errorf("%s is missing or empty: %w", filepath.Join(path, name), ErrDamaged), err)
		}
	}
	return nil
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

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.StableStore       = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)
