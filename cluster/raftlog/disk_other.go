//go:build !linux && !darwin && !freebsd

package raftlog

// freeBytes returns false: the free space is unknown.
func freeBytes(string) (int64, bool) { return 0, false }
