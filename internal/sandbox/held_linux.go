package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A killed worker leaves a control group and a directory of its commands behind. The
// next worker in the same place ends the processes there and removes both. A lock on the
// directory shows that its worker lives; the kernel frees the lock when the worker ends.
// A process number in the name would not do: in another container it means another
// process. Only the worker's own user can open the directory, so if the worker is root,
// a command cannot lock it.

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
