package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// newDir makes a directory for a command below parent. Without an owner it belongs to
// the worker's user.
func newDir(parent string, owner *uidLoan) (string, error) {
	dir, err := os.MkdirTemp(parent, "job-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the command: %w", err)
	}
	if owner != nil {
		if err := os.Chown(dir, owner.uid, owner.uid); err != nil {
			_ = os.Remove(dir) // it is empty
			return "", fmt.Errorf("give the command its directory: %w", err)
		}
	}
	return dir, nil
}

// entryCost is the least number of bytes that a file counts: many empty files fill a
// disk too.
const entryCost = 1 << 10

// maxLevels is the maximal depth of the directories of a command.
const maxLevels = 1024

// overFull returns an error if a directory takes more than limit bytes, or if its size
// cannot be determined. It never leaves the directory, even if the command replaces
// entries at the same time. It stops early when done is closed.
func overFull(dir string, limit int64, done <-chan struct{}) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil // the command has removed its own access, so it cannot fill the directory
	}
	defer func() { _ = root.Close() }() // it was only read
	m := measure{limit: limit, done: done}
	_ = m.walk(root, 0) // m keeps the result
	return m.over
}

// measure sums up a directory.
type measure struct {
	limit, sum int64
	done       <-chan struct{}
	over       error
}

// stride is the number of levels that walk descends by paths from one open directory.
// For each entry, the kernel opens every directory of the path.
const stride = 32

// walk adds up the directory root, which is above levels below the first one.
func (m *measure) walk(root *os.Root, above int) error {
	return fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if e == nil {
			return err
		}
		counted := path == "." && above > 0
		if !counted && m.enough(e) {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir // the directory has just been removed, or cannot be read
		}
		if e.IsDir() && strings.Count(path, "/") == stride-1 {
			return m.below(root, path, above+stride)
		}
		return nil
	})
}

// enough counts an entry, and reports whether the walk can stop.
func (m *measure) enough(e fs.DirEntry) bool {
	select {
	case <-m.done:
		return true
	default:
	}
	m.sum += entryCost
	if info, gone := e.Info(); gone == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			m.sum += st.Blocks * 512
		}
	}
	if m.sum > m.limit {
		m.over = fmt.Errorf("%w, %d bytes", ErrDisk, m.limit)
	}
	return m.over != nil
}

// below walks a subdirectory that it opens as a root of its own.
func (m *measure) below(root *os.Root, path string, level int) error {
	if level >= maxLevels {
		m.over = fmt.Errorf("%w: directories more than %d levels deep", ErrDisk, maxLevels)
		return fs.SkipAll
	}
	sub, err := root.OpenRoot(path)
	if err != nil {
		return fs.SkipDir // the directory has just been removed, or cannot be read
	}
	defer func() { _ = sub.Close() }() // it was only read
	_ = m.walk(sub, level)             // m keeps the result
	if m.over != nil {
		return fs.SkipAll
	}
	return fs.SkipDir
}
