// Package host knows the machine of this process: how much memory the process may use, for defaults
// that follow from it, the identity of its network stack, the timers of its kernel, and how to write a
// small file that survives a crash.
//
// # Timer slack
//
// While anything runs, the monitor thread of Go's scheduler wakes every 20 µs. On a small
// machine that is a sixth of the CPU time of a node. The kernel delays a wake-up by up to the
// timer slack of the thread, 50 µs by default, so a slack of 1 ms makes these wake-ups rare.
// Timers of the program then fire up to 1 ms late; an event on a socket or a file is not
// delayed.
//
// A thread passes its slack on to the threads that it creates, and the monitor thread is
// created before main begins. An exec keeps the slack, so RaiseTimerSlack sets it and executes the
// program again. It leaves a slack alone that is not the kernel's default: it was set on purpose
// (systemd: TimerSlackNSec=). See prctl(2), PR_SET_TIMERSLACK.
package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// Memory returns the bytes of memory that this process may use: those of the machine, or of
// its control group if that has fewer. It returns 0 if the size is unknown.
var Memory = sync.OnceValue(func() int64 {
	size := total()
	if limit := groupLimit(); limit > 0 && (size == 0 || limit < size) {
		return limit
	}
	return size
})

// WriteFile replaces the file at path by one with the given content, which only its owner
// may read. When it returns nil the content is durable; a crash leaves the old file or the
// new one.
func WriteFile(path, content string) error { return ReplaceFile(path, []byte(content), 0o600) }

// ReplaceFile does what WriteFile does, with the given permissions. The name of the new file cannot be
// guessed: in a shared directory another user could make it before, and read what is written to it.
func ReplaceFile(path string, content []byte, mode os.FileMode) error {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), leftover(name)) // with the mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error above counts
		return err
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// leftover returns the pattern of the names of the new files for a file.
func leftover(name string) string { return "." + name + ".*.tmp" }

// RemoveLeftovers removes the files that a killed process left when it replaced the file at path.
// No process may replace it now.
func RemoveLeftovers(path string) error {
	dir, name := filepath.Split(path)
	names, err := filepath.Glob(filepath.Join(dir, leftover(name)))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
