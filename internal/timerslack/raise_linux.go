package timerslack

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// kernelDefault is the slack of a process whose ancestors have not changed it.
const kernelDefault = 50 * time.Microsecond

// Raise executes the program again with the given timer slack, unless its slack is another one
// than the kernel's default. It returns nil if there is nothing to do, an error if the program
// could not be executed again, and otherwise it does not return. Call it first in main: open
// files and other state of the process are lost.
func Raise(slack time.Duration) error {
	now, err := current()
	if err != nil || now != kernelDefault {
		return err
	}
	path, err := os.Executable() // /proc/self/exe would make "exe" of the process's name
	if err != nil {
		return fmt.Errorf("execute the program again: %w", err)
	}
	runtime.LockOSThread() // the thread that executes the program passes its slack on
	defer runtime.UnlockOSThread()
	if err := set(slack); err != nil {
		return err
	}
	err = unix.Exec(path, os.Args, os.Environ())
	_ = set(kernelDefault)
	return fmt.Errorf("execute the program again: %w", err)
}

// current returns the slack of the calling thread.
func current() (time.Duration, error) {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("read the timer slack: %w", err)
	}
	return time.Duration(ns), nil
}

func set(slack time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack to %v: %w", slack, err)
	}
	return nil
}
