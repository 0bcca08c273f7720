package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A worker that is killed leaves what it has made for its commands: a control group,
// and a directory. The next one in the same place ends what runs there and removes
// them. Which are left is told by a lock on the directory, which the kernel frees with
// the worker; a process number in the name would mean another process in another
// container. Only the worker's own user can open the directory: where it is root, a
// command cannot lock it.

var errRemovedAsLeft = errors.New("another worker has removed it as one that was left")

// makeHeld makes a directory that counts as in use until held is closed, or the process
// ends.
func makeHeld(mk func() (path string, err error)) (path string, held *os.File, err error) {
	for range 10 { // between making and locking another one may take it for left
		if path, err = mk(); err != nil {
			return "", nil, err
		}
		if held, err = hold(path); err == nil {
			return path, held, nil
		}
	}
	return "", nil, err
}

// hold locks a directory that is there and that nobody holds.
func hold(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", path, err)
	}
	if err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = stillThere(dir, path)
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("hold %s: %w", path, err)
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

// dirsIn names the directories directly in one.
func dirsIn(path string) (names []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // it has just been removed
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
