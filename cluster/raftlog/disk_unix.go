//go:build linux || darwin || freebsd

package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// freeBytes returns a function that reports the free space on the disk of a directory.
func freeBytes(dir string) func() (int64, bool) {
	return func() (int64, bool) {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			return 0, false
		}
		return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ between systems
	}
}

const (
	lockPatience = 2 * time.Second // of a node that starts while the one before it ends
	lockRetry    = 50 * time.Millisecond
)

// lockDir locks a directory until the file is closed or the process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(lockRetry) {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
		case time.Now().After(until):
			return nil, errors.Join(errors.New("the log is in use: stop the other node that runs on this data directory"), f.Close())
		}
	}
}
