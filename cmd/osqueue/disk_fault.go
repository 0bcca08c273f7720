//go:build faultclock

package main

import (
	"os"
	"time"
)

// faultDiskEnv names a file. While it exists, each write of the raft log hangs, as on
// a disk that does not answer.
const faultDiskEnv = "OSQUEUE_FAULT_DISK"

// faultDiskLook is how often a write that hangs looks whether the file is still there.
const faultDiskLook = 20 * time.Millisecond

// diskFault returns what is called before each write of the raft log; nil is nothing.
func diskFault(getenv func(string) string) func() {
	path := getenv(faultDiskEnv)
	if path == "" {
		return nil
	}
	return func() {
		for {
			if _, err := os.Stat(path); err != nil {
				return
			}
			time.Sleep(faultDiskLook)
		}
	}
}
