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

// A command may make directories in directories without end. os.RemoveAll has all above
// one open at once: that would take every descriptor of the worker, and then fail. So
// what is deep is first moved up.

// openAtOnce is how many directories one removal has open.
const openAtOnce = 32

// removeDir removes a directory, or a file, whatever modes its entries have.
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
	err error // the first; later walks may have got on
}

// empty removes all in a directory until a walk through it gets no further: what is
// removed while it is read can make the system leave entries out.
func (r *remover) empty(dir *os.File, level int) {
	for progress := true; progress; {
		progress = false
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			r.note(err)
			return
		}
		for {
			const some = 1024 // names that are in memory at once, for each level
			names, err := dir.Readdirnames(some)
			for _, name := range names {
				if r.remove(dir, name, level) {
					progress = true
				}
			}
			if err != nil { // the end, or one that removing the directory will tell of
				break
			}
		}
	}
}

// remove removes an entry of a directory, or moves it up; false: it is still there.
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

// openDirAt opens a directory, and no link to one, so that it can be emptied.
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
	_ = unix.Fchmod(fd, 0o700) // whose it is not may not, and fails to remove its entries
	return os.NewFile(uintptr(fd), name), nil
}

// allow gives its owner a directory that cannot even be opened.
func allow(at int, name string) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	_ = os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
