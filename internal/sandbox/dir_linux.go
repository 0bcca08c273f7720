package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A killed worker leaves a control group and the directories of its commands behind. The
// next worker in the same place ends the processes there and removes them. A lock on the
// directory shows that its worker lives, and keeps cleaners (tmpfiles.d(5)) away; the kernel frees
// the lock when the worker ends. A process number in the name would not do: in another container it
// means another process.

var errRemovedAsLeft = errors.New("another worker removed the directory as unused")

// makeHeld makes a directory that counts as in use until held is closed or the process
// ends.
func makeHeld(mk func() (path string, err error)) (path string, held *os.File, err error) {
	for range 10 { // another worker may remove the directory before it is locked
		if path, err = mk(); err != nil {
			return "", nil, err
		}
		if held, err = hold(path); err == nil {
			return path, held, nil
		}
	}
	return "", nil, err
}

// hold locks an existing directory. It fails if another process holds the lock.
func hold(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = stillThere(dir, path)
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return dir, nil
}

func stillThere(dir *os.File, path string) error {
	locked, err := dir.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(there, locked) {
		return errRemovedAsLeft
	}
	return nil
}

// dirsIn returns the names of the directories directly below path.
func dirsIn(path string) (names []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // path has just been removed
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

const dirPrefix = "osqueue-job-"

// dirName matches the directories of commands. Names of other programs may have the same prefix.
var dirName = regexp.MustCompile(`^` + dirPrefix + `\d+$`)

// newDir makes a directory for a command below parent, which counts as in use until held is closed.
// Without an owner it belongs to the worker's user.
func newDir(parent string, owner *uidLoan) (path string, held *os.File, err error) {
	path, held, err = makeHeld(func() (string, error) { return os.MkdirTemp(parent, dirPrefix) })
	if err == nil && owner != nil {
		if err = os.Chown(path, owner.uid, owner.uid); err != nil {
			_ = os.Remove(path) // it is empty
			held.Close()
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the command: %w", err)
	}
	return path, held, nil
}

// removeLeftDirs removes the directories of commands that killed workers have left in parent, if
// they belong to the worker's user or to an id of ids, and if the file system shows which ones are in
// use. If a directory cannot be removed now, the next worker tries again.
func removeLeftDirs(parent string, ids UIDRange) {
	var st unix.Statfs_t
	if err := unix.Statfs(parent, &st); err != nil || !locksAreSeen(uint32(st.Type)) {
		return
	}
	for _, name := range dirsIn(parent) {
		path := filepath.Join(parent, name)
		info, err := os.Lstat(path)
		if err != nil || !dirName.MatchString(name) {
			continue
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != os.Geteuid() && (int(st.Uid) < ids.First || int(st.Uid) >= ids.First+ids.Count) {
			continue // it belongs to another user
		}
		if held, err := hold(path); err == nil {
			_ = removeDir(path)
			held.Close()
		}
	}
}

// locksAreSeen reports whether all users of a file system see locks of directories, by
// its number in statfs(2). On network file systems each machine may see only its own
// locks: the places of workers on other machines would look unused.
func locksAreSeen(number uint32) bool {
	switch number {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC,
		0x0bd00bd0, 0x47504653, 0x19830326, 0x786f4256: // Lustre, GPFS, BeeGFS, VirtualBox
		return false
	}
	return true
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
