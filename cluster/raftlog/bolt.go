package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

const boltLockTimeout = 2 * time.Second

func openBolt(path string) (*raftboltdb.BoltStore, error) {
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

// Layout of the first two pages of a bolt file, each of which has a root (go.etcd.io/bbolt,
// type meta): 16 bytes of page header, then the fields below.
const (
	pageHeader  = 16
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	rootSum     = 56 // offset of the checksum (FNV-1a, 64 bits) of the bytes before it
	rootSize    = rootSum + 8
)

// checkBolt checks a bolt file before it is opened for writing. The file may be missing.
func checkBolt(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // bolt will create it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if err := checkRoots(f); err != nil {
		return err
	}
	return checkOrder(path)
}

// checkOrder checks that the keys of every bucket ascend. When bolt opens a file for
// writing, it reads the pages in a goroutine of its own. A page with unordered keys makes
// that goroutine panic, which ends the process.
func checkOrder(path string) error {
	db, err := bbolt.Open(path, 0o600, boltOptions(true))
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error { return tx.ForEach(ascends) })
	return errors.Join(err, db.Close())
}

func ascends(name []byte, b *bbolt.Bucket) error {
	var last []byte
	return b.ForEach(func(key, _ []byte) error {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("the keys of %q are not in order: %w", name, ErrDamaged)
		}
		last = key
		return nil
	})
}

// checkRoots checks both roots of a bolt file. Bolt needs only one valid root: if the newer
// one is damaged, bolt opens the file without its last transaction. A root lies within one
// disk sector, so a crash cannot leave it half written.
func checkRoots(f io.ReaderAt) error {
	size, err := checkRoot(f, 0)
	if err == nil {
		_, err = checkRoot(f, int64(size))
	}
	return err
}

// checkRoot checks the root of the page at offset at and returns the page size in it.
func checkRoot(f io.ReaderAt, at int64) (pageSize uint32, err error) {
	var m [rootSize]byte
	if _, err := f.ReadAt(m[:], at+pageHeader); err != nil {
		return 0, fmt.Errorf("read the root at byte %d: %w: %w", at, err, ErrDamaged)
	}
	h := fnv.New64a()
	_, _ = h.Write(m[:rootSum])
	word := binary.NativeEndian.Uint32
	if word(m[0:]) != boltMagic || word(m[4:]) != boltVersion || binary.NativeEndian.Uint64(m[rootSum:]) != h.Sum64() {
		return 0, fmt.Errorf("the root at byte %d: %w", at, ErrDamaged)
	}
	return word(m[8:]), nil
}
