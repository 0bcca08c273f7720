package cluster

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func mountTmpfs(dir string, bytes int64) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

// unmountTmpfs unmounts a disk even if processes still use it.
func unmountTmpfs(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

func spaceOf(dir string) (Space, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Space{}, err
	}
	return Space{Size: int64(s.Blocks) * s.Bsize, Free: int64(s.Bavail) * s.Bsize}, nil
}

// grow extends a file by the given number of allocated bytes.
func grow(f *os.File, bytes int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return syscall.Fallocate(int(f.Fd()), 0, info.Size(), bytes)
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) }
