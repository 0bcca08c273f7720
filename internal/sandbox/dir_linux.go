package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// newDir makes a directory for a command; without an owner it is the worker's.
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

// entryCost is what a file counts at least, in bytes: many empty ones fill a
// disk too.
const entryCost = 1 << 10

// maxLevels is how deep the directories of a command may be.
const maxLevels = 1024

// overFull says why a directory may not go on: it takes more than limit bytes, or what
// it takes cannot be told. It never leaves the directory, whatever the command makes of
// its entries meanwhile. It gives up when done is closed.
func overFull(dir string, limit int64, done <-chan struct{}) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil // the command has taken its rights, and can fill it no more
	}
	defer func() { _ = root.Close() }() // it was only read
	m := measure{limit: limit, done: done}
	_ = m.walk(root, 0) // what it has found is in m
	return m.over
}

// measure sums up a directory.
type measure struct {
	limit, sum int64
	done       <-chan struct{}
	over       error
}

// stride is how many levels are walked by paths from one open directory: each level of
// a path is one more directory to be opened for every entry there.
const stride = 32

// walk goes through a directory that is some levels below the first.
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
			return fs.SkipDir // it has just been removed, or cannot be read
		}
		if e.IsDir() && strings.Count(path, "/") == stride-1 {
			return m.below(root, path, above+stride)
		}
		return nil
	})
}

// enough counts an entry, and says whether no more have to be.
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

// below walks a directory from itself.
func (m *measure) below(root *os.Root, path string, level int) error {
	if level >= maxLevels {
		m.over = fmt.Errorf("%w: directories more than %d levels deep", ErrDisk, maxLevels)
		return fs.SkipAll
	}
	sub, err := root.OpenRoot(path)
	if err != nil {
		return fs.SkipDir // it has just been removed, or cannot be read
	}
	defer func() { _ = sub.Close() }() // it was only read
	_ = m.walk(sub, level)             // what it has found is in m
	if m.over != nil {
		return fs.SkipAll
	}
	return fs.SkipDir
}
