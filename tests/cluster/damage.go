package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"osqueue/cluster/raftlog"
)

// Damage describes a change of a file, with the proof.
type Damage struct {
	File          string
	Offset        int64 // of the first changed byte
	Before, After string
}

// String describes the damage for reports.
func (d Damage) String() string {
	return fmt.Sprintf("%s from byte %d: sha-256 %.12s, then %.12s", d.File, d.Offset, d.Before, d.After)
}

// FlipBit inverts one bit, 0 to 7, of a file of a stopped node. A negative offset counts from
// the end.
func (n *Node) FlipBit(path string, offset int64, bit uint) (Damage, error) {
	return n.damage(path, func(f *os.File, size int64) (int64, error) {
		if offset < 0 {
			offset += size
		}
		if offset < 0 || offset >= size || bit > 7 {
			return 0, fmt.Errorf("there is no bit %d of byte %d in %d bytes", bit, offset, size)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], offset); err != nil {
			return 0, err
		}
		b[0] ^= 1 << bit
		_, err := f.WriteAt(b[:], offset)
		return offset, err
	})
}

// TearEnd cuts the given number of bytes from the end of a file of a stopped node.
func (n *Node) TearEnd(path string, bytes int64) (Damage, error) {
	return n.damage(path, func(f *os.File, size int64) (int64, error) {
		if bytes <= 0 || bytes > size {
			return 0, fmt.Errorf("%d bytes cannot be cut from %d", bytes, size)
		}
		return size - bytes, f.Truncate(size - bytes)
	})
}

// damage changes a file and returns its checksums before and after.
func (n *Node) damage(path string, change func(f *os.File, size int64) (int64, error)) (d Damage, err error) {
	if n.Running() {
		return d, fmt.Errorf("%s is running", n.Name)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d.File = path
	var size int64
	if d.Before, size, err = checksum(f); err != nil {
		return d, err
	}
	if d.Offset, err = change(f, size); err != nil {
		return d, err
	}
	if d.After, _, err = checksum(f); err == nil && d.After == d.Before {
		err = fmt.Errorf("%s is what it was", path)
	}
	return d, err
}

func checksum(f *os.File) (sum string, size int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// Snapshots returns the files with the states of the node's own snapshots, the newest
// first.
func (n *Node) Snapshots() ([]string, error) {
	all, err := n.snapshots()
	paths := make([]string, len(all))
	for i, s := range all {
		paths[i] = s.path
	}
	return paths, err
}

// snapshot is the state file of a snapshot in the data directory.
type snapshot struct {
	path        string
	index, term uint64
}

// snapshots returns the finished snapshots, newest first.
func (n *Node) snapshots() ([]snapshot, error) {
	paths, err := filepath.Glob(filepath.Join(n.data(), "snapshots", "*", "state.bin"))
	if err != nil {
		return nil, err
	}
	var all []snapshot
	for _, p := range paths {
		dir := filepath.Base(filepath.Dir(p))
		if filepath.Ext(dir) != "" {
			continue // not finished
		}
		s := snapshot{path: p}
		if _, err := fmt.Sscanf(dir, "%d-%d-", &s.term, &s.index); err != nil {
			return nil, fmt.Errorf("snapshot %s of %s: %w", p, n.Name, err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b snapshot) int { return cmp.Or(cmp.Compare(b.index, a.index), cmp.Compare(b.term, a.term)) })
	return all, nil
}

// LastEntry returns the position of the newest entry of a stopped node's raft log.
func (n *Node) LastEntry() (path string, offset, length int64, err error) {
	if n.Running() {
		return "", 0, 0, fmt.Errorf("%s is running", n.Name)
	}
	dir := filepath.Join(n.data(), "raft", "log")
	log, err := raftlog.OpenDir(n.data(), raftlog.Options{Spares: -1})
	if err != nil {
		return "", 0, 0, err
	}
	last, err := log.LastIndex()
	if err == nil {
		path, offset, length, err = log.Place(last)
	}
	return filepath.Join(dir, path), offset, length, errors.Join(err, log.Close())
}
