package machine

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// limitFiles hold the limit of the control group, as a process in a container sees it: of
// version 2, and of version 1.
var limitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// total returns the memory of the machine, or 0.
func total() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// groupLimit returns the limit of the control group, or 0 if it has none.
func groupLimit() int64 {
	for _, path := range limitFiles {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64); err == nil && n > 0 {
			return n // "max" is no number; version 1 has a huge number instead
		}
	}
	return 0
}
