//go:build !linux && !darwin && !freebsd

package raftlog

import (
	"os"
	"path/filepath"
)

// freeBytes returns nil: the free space is unknown.
func freeBytes(string) func() (int64, bool) { return nil }

// lockDir does not lock: two nodes must not use one directory.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
}
