package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

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

// NetworkStack returns the identity of the network stack in which a loopback address of this
// process is valid: a hash of the boot id of the machine and of the network namespace, 32 hex
// digits, because everyone who reads the bucket sees it. Machines and containers with networks of
// their own have different ones. It returns "" if the identity is unknown.
func NetworkStack() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) == 0 {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(boot)) + " " + namespace))
	return hex.EncodeToString(sum[:16])
}

// defaultSlack is the slack of a process whose ancestors have not changed it.
const defaultSlack = 50 * time.Microsecond

// RaiseTimerSlack executes the program again with the given timer slack, unless its slack is another one
// than the kernel's default. It returns nil if there is nothing to do, an error if the program
// could not be executed again, and otherwise it does not return. Call it first in main: open
// files and other state of the process are lost.
func RaiseTimerSlack(slack time.Duration) error {
	now, err := timerSlack()
	if err != nil || now != defaultSlack {
		return err
	}
	path, err := os.Executable() // /proc/self/exe would make "exe" of the process's name
	if err != nil {
		return fmt.Errorf("execute the program again: %w", err)
	}
	runtime.LockOSThread() // the thread that executes the program passes its slack on
	defer runtime.UnlockOSThread()
	if err := setTimerSlack(slack); err != nil {
		return err
	}
	err = unix.Exec(path, os.Args, os.Environ())
	_ = setTimerSlack(defaultSlack)
	return fmt.Errorf("execute the program again: %w", err)
}

// timerSlack returns the slack of the calling thread.
func timerSlack() (time.Duration, error) {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("read the timer slack: %w", err)
	}
	return time.Duration(ns), nil
}

func setTimerSlack(slack time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack to %v: %w", slack, err)
	}
	return nil
}
