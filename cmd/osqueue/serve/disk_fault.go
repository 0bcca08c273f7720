//go:build faultclock

package serve

import (
	"os"
	"time"
)

// faultDiskEnv is the environment variable that names a file. While the file exists,
// each write of the raft log hangs, as on a disk that does not answer.
const faultDiskEnv = "OSQUEUE_FAULT_DISK"

// faultDiskLook is the interval at which a hanging write checks for the file.
const faultDiskLook = 20 * time.Millisecond

// diskFault returns the function that runs before each write of the raft log, or nil.
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
