//go:build linux || darwin || freebsd

package raftlog

import "golang.org/x/sys/unix"

// freeBytes returns the free space on the disk of a directory.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ between systems
}
