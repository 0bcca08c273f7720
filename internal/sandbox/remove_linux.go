package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A command may nest directories without bound. os.RemoveAll keeps all directories above
// the present one open: it would use up every descriptor of the worker, and then fail.
// So a remover first moves deep directories up.

// openAtOnce is the number of directories that one removal keeps open.
const openAtOnce = 32

// removeDir removes a directory with its entries, or a file, whatever their modes are.
func removeDir(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	top, failed := openDirAt(unix.AT_FDCWD, path)
	if failed != nil {
		return fmt.Errorf("remove the command's directory: %w", err)
	}
	defer top.Close()
	r := &remover{top: top}
	r.empty(top, 1)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the command's directory: %w", errors.Join(r.err, err))
	}
	return nil
}

// remover empties the directory top.
type remover struct {
	top *os.File
	err error // the first error; a later walk may succeed
}

// empty removes all entries of a directory. It repeats its walk until one removes
// nothing, because removals during a walk can make the kernel skip entries.
func (r *remover) empty(dir *os.File, level int) {
	for progress := true; progress; {
		progress = false
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			r.note(err)
			return
		}
		for {
			const some = 1024 // the number of names in memory at once, for each level
			names, err := dir.Readdirnames(some)
			for _, name := range names {
				if r.remove(dir, name, level) {
					progress = true
				}
			}
			if err != nil { // the end, or an error that the removal of the directory will report
				break
			}
		}
	}
}

// remove removes an entry of a directory, or moves it up. It returns false if the entry
// is still there.
func (r *remover) remove(dir *os.File, name string, level int) bool {
	at := int(dir.Fd())
	err := unix.Unlinkat(at, name, 0)
	if err == nil {
		return true
	}
	sub, failed := openDirAt(at, name)
	if failed != nil {
		if !errors.Is(failed, unix.ENOTDIR) {
			err = failed
		}
		r.note(&fs.PathError{Op: "remove", Path: name, Err: err})
		return false
	}
	defer sub.Close()
	if level >= openAtOnce {
		err = unix.Renameat(at, name, int(r.top.Fd()), rand.Text())
	} else {
		r.empty(sub, level+1)
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		r.note(&fs.PathError{Op: "remove", Path: name, Err: err})
	}
	return err == nil
}

func (r *remover) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

// openDirAt opens a directory, but no link to one, and makes it writable so that it can
// be emptied.
func openDirAt(at int, name string) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		allow(at, name)
		fd, err = unix.Openat(at, name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	_ = unix.Fchmod(fd, 0o700) // fails for another user's directory; then the removal of its entries fails
	return os.NewFile(uintptr(fd), name), nil
}

// allow gives the owner access to a directory that cannot be opened.
func allow(at int, name string) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	_ = os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
