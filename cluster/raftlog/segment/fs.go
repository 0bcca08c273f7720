package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// FS is the directory of a log. Names have no path. The methods are safe for concurrent
// use on different names.
type FS interface {
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
}

// File is one file of an FS. Its methods are safe for concurrent use.
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

// Dir is the path of a directory, as an FS.
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// Create implements FS.
func (d Dir) Create(name string) (File, error) {
	return openFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements FS.
func (d Dir) Open(name string) (File, error) { return openFile(d.path(name), os.O_RDWR) }

// Rename implements FS.
func (d Dir) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

// Remove implements FS.
func (d Dir) Remove(name string) error { return os.Remove(d.path(name)) }

// List implements FS.
func (d Dir) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// SyncDir implements FS.
func (d Dir) SyncDir() error {
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
