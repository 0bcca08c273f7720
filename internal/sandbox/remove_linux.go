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

// removeDir removes a directory with its entries, or a file, whatever their modes are. A
// command may nest directories without bound, and os.RemoveAll keeps all directories above
// the present one open: it would use up every descriptor of the worker, and then fail. So removeDir
// moves the directories of a directory up before it removes that.
func removeDir(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	top, failed := openDirAt(unix.AT_FDCWD, path)
	if failed != nil {
		return fmt.Errorf("remove the command's directory: %w", errors.Join(err, failed))
	}
	defer top.Close()
	failed = emptyDir(top, func(name string) error {
		sub, err := openDirAt(int(top.Fd()), name)
		if err != nil {
			return err
		}
		defer sub.Close()
		err = emptyDir(sub, func(name string) error {
			below, err := openDirAt(int(sub.Fd()), name) // only a writable directory can be moved
			if err != nil {
				return err
			}
			defer below.Close()
			return unix.Renameat(int(sub.Fd()), name, int(top.Fd()), rand.Text())
		})
		return errors.Join(err, unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR))
	})
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the command's directory: %w", errors.Join(failed, err))
	}
	return nil
}

// emptyDir removes the files of a directory, and calls other for its directories. It repeats its walk
// until one removes nothing, because changes during a walk can make the kernel skip entries. It
// returns the first error of the last walk.
func emptyDir(dir *os.File, other func(name string) error) (failed error) {
	for progress := true; progress; {
		progress, failed = false, nil
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		for {
			const some = 1024 // the number of names in memory at once
			names, end := dir.Readdirnames(some)
			for _, name := range names {
				err := unix.Unlinkat(int(dir.Fd()), name, 0)
				if err != nil {
					err = other(name)
				}
				if err == nil {
					progress = true
				} else if failed == nil {
					failed = &fs.PathError{Op: "remove", Path: name, Err: err}
				}
			}
			if end != nil { // or an error that the removal of the directory will report
				break
			}
		}
	}
	return failed
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
