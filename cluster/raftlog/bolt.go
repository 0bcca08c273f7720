package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// The layout of a bolt file's first two pages, each of which holds a root
// (go.etcd.io/bbolt, type meta): 16 bytes of page header, then the fields below.
const (
	pageHeader  = 16
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSum     = 56 // where the checksum (FNV-1a, 64 bits) of what is before it stands
	metaSize    = metaSum + 8
)

// checkBolt looks at a bolt file before it is opened for writing. There may be none.
func checkBolt(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it is about to be made
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

// checkOrder demands that the keys of every bucket ascend. Bolt meets a page of which
// this is not true in a goroutine of its own when it opens the file for writing, and
// takes the process with it.
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

// checkRoots demands that both roots of a bolt file are sound. Bolt itself is content
// with one, and opens the file without its last transaction when the newer one is
// damaged. A root is rewritten within one sector, so a crash does not tear it.
func checkRoots(f io.ReaderAt) error {
	size, err := checkRoot(f, 0)
	if err == nil {
		_, err = checkRoot(f, int64(size))
	}
	return err
}

// checkRoot checks the root of the page at that place and returns the page size that
// it names.
func checkRoot(f io.ReaderAt, at int64) (pageSize uint32, err error) {
	var m [metaSize]byte
	if _, err := f.ReadAt(m[:], at+pageHeader); err != nil {
		return 0, fmt.Errorf("read the root at byte %d: %w: %w", at, err, ErrDamaged)
	}
	h := fnv.New64a()
	_, _ = h.Write(m[:metaSum])
	word := binary.NativeEndian.Uint32
	if word(m[0:]) != metaMagic || word(m[4:]) != metaVersion || binary.NativeEndian.Uint64(m[metaSum:]) != h.Sum64() {
		return 0, fmt.Errorf("the root at byte %d: %w", at, ErrDamaged)
	}
	return word(m[8:]), nil
}
