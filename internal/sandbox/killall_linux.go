package sandbox

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// A process that forks all the time, and whose parent ends each time, is in no walk of
// /proc: when its entry is read it has another number. The kernel can be asked about all
// processes of a user id at one moment, and told to kill them.

// hasProcesses says whether a user id has processes, zombies among them. One that is
// not mapped into the worker's user namespace has none.
func hasProcesses(uid int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, uid)
	return err == nil
}

// canCount is an error where the kernel does not know which processes a user id has:
// root has some. That of gVisor says 0 for each.
func canCount() error {
	n, err := unix.Getpriority(unix.PRIO_USER, 0)
	if err == nil && n == 0 {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("ask the kernel whether a user id has processes, by getpriority(2): %w", err)
	}
	return nil
}

// killAll kills all processes of a user id. After it none of them can fork: those that
// are there are ending.
//
// kill(2) of everybody reaches whom the caller may signal, so a thread of the worker
// takes the id for the moment: as its effective one, which counts for whom it may
// signal. Its real one has to be nobody's, as that counts too; and as the saved one
// stays 0, no process of either id may signal the thread.
func (p *uidPool) killAll(uid int) error {
	spare, err := p.spare()
	if err != nil {
		return err
	}
	defer spare.file.Close()
	return onLaterThread(func() (bool, error) {
		err := setUser(spare.uid, uid)
		if err == nil {
			err = onlyOwn(uid, spare.uid)
		}
		if err == nil {
			err = unix.Kill(-1, unix.SIGKILL)
		}
		return setUser(0, 0) == nil, err
	})
}

// onLaterThread runs f on a thread of its own that is not the process's first. A change
// of ids clears a thread's parent-death signal, and what others mean by that of the
// worker is that of its first thread. f says whether the thread can be used further.
func onLaterThread(f func() (reusable bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onLaterThread(f) // which cannot be this one
			runtime.UnlockOSThread()
			return
		}
		reusable, err := f()
		if reusable { // else the thread ends with this goroutine
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
		return fmt.Errorf("take the user id %d to kill its processes: %w", euid, errno)
	}
	return nil
}

var errMaySignalOthers = errors.New("this thread may signal processes of others")

// onlyOwn is an error unless this thread may signal processes of uid and of nobody, which
// is its real user. One of a process with SECBIT_NO_SETUID_FIXUP keeps its capabilities
// when it changes its user.
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
