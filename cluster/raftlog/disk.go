package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog/segment"
	"osqueue/cluster/transport"
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

// Disk is the raft log of a data directory with its votes and terms. It implements Store.
type Disk struct {
	*segment.Log
	votes
}

// Open opens the raft log of a data directory. It creates the log if there is none. The error wraps
// ErrDamaged if a file is damaged. warn is called when the log cannot prepare a segment; see
// segment.Options.
func Open(dir string, warn func(error)) (*Disk, error) {
	path := filepath.Join(dir, dirName)
	if err := create(path); err != nil {
		return nil, fmt.Errorf("create the raft log %s: %w", path, err)
	}
	var d *Disk
	err := shielded(func() (err error) {
		if err := complete(path); err != nil {
			return err
		}
		if d, err = open(path, segment.Options{Warn: warn, Free: freeBytes(dir)}); err != nil {
			return err
		}
		return d.readVotes()
	})
	if err == nil {
		return d, nil
	}
	err = fmt.Errorf("open the raft log %s: %w", path, err)
	if d != nil {
		// Close of a damaged store may fail, too; the process ends anyway.
		err = errors.Join(err, shielded(d.Close))
	}
	return nil, err
}

// open opens both parts. The lock on the votes keeps a second process out, so it is taken
// first.
func open(path string, o segment.Options) (*Disk, error) {
	stable, err := openBolt(filepath.Join(path, votesName))
	if err != nil {
		return nil, err
	}
	entries, err := segment.Open(segment.Dir(filepath.Join(path, entriesName)), o)
	if err != nil {
		return nil, errors.Join(err, stable.Close())
	}
	return &Disk{entries, votes{stable}}, nil
}

// Close closes both parts.
func (d *Disk) Close() error { return errors.Join(d.Log.Close(), d.stable.Close()) }

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
	d, err := open(tmp, segment.Options{Spares: -1, Free: freeBytes(filepath.Dir(path))})
	if err != nil {
		return err
	}
	if err := errors.Join(d.Close(), segment.Dir(tmp).SyncDir()); err != nil {
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

// Memory returns a store without a disk.
func Memory() Store { return memory{raft.NewInmemStore()} }

type memory struct{ *raft.InmemStore }

// Close implements io.Closer.
func (memory) Close() error { return nil }

// Sizes implements Store.
func (m memory) Sizes(yield func(index uint64, bytes int) bool) {
	last, _ := m.LastIndex() // never fails
	var e raft.Log
	for i := last; m.GetLog(i, &e) == nil && yield(i, transport.EntryBytes(&e)); i-- {
	}
}
