package sandbox

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bwrap runs two processes for a namespace. The inner one is the first process of the
// namespace. It lives as long as any other process there, and the kernel protects it
// from all of them. The outer one ends when the command ends, and then the kernel kills
// the whole namespace. So processes that the command has left can be seen only before
// the outer process is gone. The kernel therefore stops it at its exit
// (PTRACE_O_TRACEEXIT), outside of the namespace, where no command can forge or prevent
// the stop.
//
// Without --die-with-parent, bwrap would keep the namespace after the command's end, but
// also after the end of a killed worker.

// traceExit makes a program that is stopped at its start stop again at its exit. It must run
// on the thread that has started the program.
func traceExit(pid int) error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	if !status.Stopped() {
		return errNotStopped
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT); err != nil {
		return err
	}
	return unix.PtraceCont(pid, 0)
}

var errNotStopped = errors.New("it did not stop at its start")

// awaitEnd returns when the outer process has ended, or when only an operator's SIGSTOP
// delays its end. It reports whether the namespace had processes after the command. The
// calling thread must have called traceExit. No other goroutine may wait for
// the process yet, because a wait would consume the stop.
func awaitEnd(outer int) (left bool) {
	for {
		status, ok := nextStop(outer)
		sig := status.StopSignal()
		switch {
		case !ok:
			return false // a signal killed it, and so all its processes
		case status.TrapCause() == unix.PTRACE_EVENT_EXIT:
			left = othersGoOn(outer)
			_ = unix.PtraceDetach(outer) // fails only if a signal killed it
			return left
		case sig == unix.SIGSTOP: // from kill, or from an operator
			detachStopped(outer)
			return false // no command can cause this
		case sig == unix.SIGTRAP: // bwrap is a script that has executed the real bwrap
			sig = 0
		}
		_ = unix.PtraceCont(outer, int(sig)) // fails only if a signal killed it
	}
}

// detachStopped detaches from a process that SIGSTOP is about to stop. While the process
// is traced, SIGCONT does not resume it.
func detachStopped(pid int) {
	// x/sys has only a detach without a signal. The call fails only if a signal killed
	// the process.
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(unix.SIGSTOP), 0, 0)
}

// nextStop waits until a traced child is stopped. It returns false if the child has
// ended; os/exec then reaps it.
func nextStop(pid int) (unix.WaitStatus, bool) {
	for {
		info, err := waitid(pid, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT)
		if err != nil || info.code == exited || info.code == killed || info.code == dumped {
			return 0, false
		}
		// A kill may have moved the child from that stop to the next one, at its exit.
		info, err = waitid(pid, unix.WSTOPPED|unix.WNOHANG)
		if err == nil && info.pid != 0 {
			return unix.WaitStatus(info.status<<8 | 0x7f), true
		}
	}
}

// The codes of waitid(2) for an end; x/sys does not name them.
const (
	exited = 1
	killed = 2
	dumped = 3
)

// childInfo is struct siginfo as waitid(2) fills it.
type childInfo struct {
	_, _, code, _  int32
	pid, _, status int32
}

func waitid(pid, options int) (childInfo, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return *(*childInfo)(unsafe.Pointer(&info)), err //nolint:gosec // x/sys keeps the fields that differ by signal to itself
		}
	}
}

// othersGoOn waits until the processes that are left have ended, and reports whether
// some did not. The inner process is a child of the outer one, which is stopped, so its
// number is not reused. If the inner process is ending, no other is left, but the kernel
// may take time to free files in memory.
func othersGoOn(outer int) bool {
	all, err := processes()
	if err != nil {
		return false // /proc is gone: nothing can be done
	}
	deadline := time.Now().Add(linger)
	for _, p := range all {
		if p.ppid == outer && !p.zombie && !endsBy(p.pid, deadline) && !ending(p.pid) {
			return true
		}
	}
	return false
}

// endsBy reports whether a process ends before the deadline.
func endsBy(pid int, deadline time.Time) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true // the process is gone
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	for {
		rest := max(0, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(rest.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
