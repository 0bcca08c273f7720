package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// ErrDamaged is wrapped by every error about data on the disk that differs from the written
// data.
var ErrDamaged = errors.New("the raft log is damaged: stop this node, delete its data directory and start it again; it gets " +
	"its state from the other nodes")

// Disk is what a Log needs of a disk: the directory of its segments, the votes, and the witness. Names
// have no path. Calls for different names, for the votes and for the witness may come at the same time.
type Disk interface {
	// Create creates a file, which must not exist, for reading and writing.
	Create(name string) (File, error)
	// Open opens a file for reading and writing.
	Open(name string) (File, error)
	// Rename renames a file. It is durable after SyncDir.
	Rename(from, to string) error
	// Remove removes a file. It is durable after SyncDir.
	Remove(name string) error
	// List returns the names of all files.
	List() ([]string, error)
	// SyncDir makes the names of all files durable.
	SyncDir() error
	// Free returns the free bytes on the disk; ok is false if they are unknown.
	Free() (bytes int64, ok bool)

	// Set sets a value, durably.
	Set(key, val []byte) error
	// Get returns a value. The text of the error is "not found" if there is none.
	Get(key []byte) ([]byte, error)

	// LoadWitness returns the witness.
	LoadWitness() (Witnessed, error)
	// SaveWitness replaces the witness, durably.
	SaveWitness(Witnessed) error

	io.Closer
}

// File is one file of a Disk. Its methods are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the content and the size of the file durable. After an error it is unknown
	// which writes are durable, and a later Sync does not tell.
	Sync() error
	// Size returns the size in bytes.
	Size() (int64, error)
}

// Names in a data directory. The directory of the log gets its name when both parts are in it, so a
// part that is missing later was lost.
const (
	dirName     = "raft"
	votesName   = "votes.db" // in it
	entriesName = "log"      // in it

	unfinished = ".tmp" // ends the name of what is being created
)

// openDirectory opens the disk of a log in a data directory.
func openDirectory(data string) (Disk, error) {
	path := filepath.Join(data, dirName)
	d := &directory{dir: dir(filepath.Join(path, entriesName)), data: data}
	return d, shielded(func() (err error) {
		if err := complete(path); err != nil {
			return err
		}
		d.BoltStore, err = openBolt(filepath.Join(path, votesName))
		return err
	})
}

// create creates an empty log if there is none. A crash before the rename leaves nothing that
// counts.
func create(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	tmp := path + unfinished
	entries := filepath.Join(tmp, entriesName)
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(entries, 0o700)); err != nil {
		return err
	}
	votes, err := openBolt(filepath.Join(tmp, votesName))
	if err != nil {
		return err
	}
	if err := errors.Join(votes.Close(), createMeta(directory{dir: dir(entries)}), dir(tmp).SyncDir()); err != nil {
		return err
	}
	return errors.Join(os.Rename(tmp, path), dir(filepath.Dir(path)).SyncDir())
}

// complete checks that neither part is missing. A missing one would be created empty.
func complete(path string) error {
	for _, name := range []string{votesName, filepath.Join(entriesName, metaName)} {
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

// directory is the Disk of a node: the files of the operating system, and the votes in raft-boltdb.
type directory struct {
	dir
	*raftboltdb.BoltStore // of which only the part for votes and terms is used
	data                  string
}

// Close implements Disk. Close of a damaged store may panic.
func (d directory) Close() error { return shielded(d.BoltStore.Close) }

// Free implements Disk.
func (d directory) Free() (bytes int64, ok bool) { return freeBytes(d.data) }

// LoadWitness implements Disk. It also removes what a killed process left.
func (d directory) LoadWitness() (Witnessed, error) { return loadWitness(d.data) }

// SaveWitness implements Disk.
func (d directory) SaveWitness(w Witnessed) error { return WriteWitness(d.data, w) }

// dir is the path of a directory.
type dir string

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// Create implements Disk.
func (d dir) Create(name string) (File, error) {
	return openFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements Disk.
func (d dir) Open(name string) (File, error) { return openFile(d.path(name), os.O_RDWR) }

// Rename implements Disk.
func (d dir) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

// Remove implements Disk.
func (d dir) Remove(name string) error { return os.Remove(d.path(name)) }

// List implements Disk.
func (d dir) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// SyncDir implements Disk.
func (d dir) SyncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// osFile is a File of the operating system.
type osFile struct{ *os.File }

func openFile(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Sync implements File.
func (f osFile) Sync() error { return syncData(f.File) }

// Size implements File.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
