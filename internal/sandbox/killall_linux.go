package sandbox

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// A process that forks in a loop, and whose parent ends each time, escapes a walk of
// /proc: when its entry is read, the process has another number. The kernel can count
// and kill all processes of a user id at one moment.

// hasProcesses reports whether a user id has processes, zombies included. A user id that
// is not mapped into the worker's user namespace has none.
func hasProcesses(uid int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, uid)
	return err == nil
}

// canCount returns an error if the kernel cannot count the processes of a user id. It
// asks about root, which always has some; gVisor reports 0 for each user id.
func canCount() error {
	n, err := unix.Getpriority(unix.PRIO_USER, 0)
	if err == nil && n == 0 {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("look for processes of a user id with getpriority(2): %w", err)
	}
	return nil
}

// killAll kills all processes of a user id. When it returns, none of them can fork; the
// remaining ones are ending.
//
// kill(2) with the pid -1 reaches all processes that the caller may signal, so a thread
// of the worker takes the id for the moment. The effective id decides whom the thread
// may signal. The real id counts too, so it is one that no process has. The saved
// id stays 0, so no process of either id may signal the thread.
func (l *uidLoan) killAll() error {
	return onLaterThread(func() (bool, error) {
		err := setUser(l.pool.nobody(), l.uid)
		if err == nil {
			err = onlyOwn(l.uid, l.pool.nobody())
		}
		if err == nil {
			err = unix.Kill(-1, unix.SIGKILL)
		}
		return setUser(0, 0) == nil, err
	})
}

// onLaterThread runs f on a new thread that is not the first one of the process. A
// change of ids clears the parent-death signal of a thread, and other programs rely on
// the signal of the worker's first thread. f reports whether the thread can be reused.
func onLaterThread(f func() (reusable bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onLaterThread(f) // this goroutine keeps the first thread, so the next one gets another
			runtime.UnlockOSThread()
			return
		}
		reusable, err := f()
		if reusable { // otherwise the thread ends with this goroutine
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// setUser changes the real and the effective user id of this thread only.
func setUser(ruid, euid int) error {
	const unchanged = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(ruid), uintptr(euid), unchanged); errno != 0 {
		return fmt.Errorf("switch to user id %d to kill its processes: %w", euid, errno)
	}
	return nil
}

var errMaySignalOthers = errors.New("this thread may signal processes of others")

// onlyOwn returns an error unless this thread may signal only processes of uid and of
// its real user id. A process with SECBIT_NO_SETUID_FIXUP keeps its capabilities when it
// changes its user, and could signal others.
func onlyOwn(uid, nobody int) error {
	if ruid, euid, _ := unix.Getresuid(); ruid != nobody || euid != uid {
		return errMaySignalOthers
	}
	var sets [2]unix.CapUserData // 64 bits in two parts
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return fmt.Errorf("ask for capabilities: %w", err)
	}
	if sets[0].Effective&(1<<unix.CAP_KILL) != 0 {
		return errMaySignalOthers
	}
	return nil
}
