package sandbox

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bwrap of a namespace is two processes. The inner one is the first of the
// namespace and goes on as long as any other is there; the kernel protects it
// from all of them. The outer one ends when the command has, and takes the inner
// one and whatever is left with it. So what was left can be seen only before the
// outer one is gone: the kernel stops it at its exit (PTRACE_O_TRACEEXIT). That
// is outside of the namespace, where no command can forge or prevent it.
//
// Bwrap without --die-with-parent would let the namespace be after the command's
// end, but after the end of a killed worker too.

// awaitEnd returns when the outer process has ended, or will unless somebody has
// stopped it, and says whether its namespace had processes after the command. The
// outer process was started to be held at its exit. Nobody may wait for it yet:
// who does gets such a stop for its end.
func (l *launcher) awaitEnd(outer int) (left bool) {
	for {
		status, ok := nextStop(outer)
		sig := status.StopSignal()
		switch {
		case !ok:
			return false // it was killed, and so is what it had started
		case status.TrapCause() == unix.PTRACE_EVENT_EXIT:
			left = othersGoOn(outer)
			l.do(func() { _ = unix.PtraceDetach(outer) }) // an error says that it was killed
			return left
		case sig == unix.SIGSTOP: // of our own kill, or an operator's
			l.do(func() { detachStopped(outer) })
			return false // no command can do this to it
		case sig == unix.SIGTRAP: // it is a script that has executed bwrap itself
			sig = 0
		}
		l.do(func() { _ = unix.PtraceCont(outer, int(sig)) }) // the same
	}
}

// detachStopped lets go of a process that SIGSTOP is about to stop. While it is
// traced SIGCONT would not let it go on.
func detachStopped(pid int) {
	// x/sys detaches without a signal only. An error says that it was killed.
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(unix.SIGSTOP), 0, 0)
}

// nextStop waits until a traced child is stopped; false: it has ended, which
// os/exec is left to wait for.
func nextStop(pid int) (unix.WaitStatus, bool) {
	for {
		info, err := waitid(pid, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT)
		if err != nil || info.code == exited || info.code == killed || info.code == dumped {
			return 0, false
		}
		// Being killed it may have left that stop for its next, the one at the exit.
		info, err = waitid(pid, unix.WSTOPPED|unix.WNOHANG)
		if err == nil && info.pid != 0 {
			return unix.WaitStatus(info.status<<8 | 0x7f), true
		}
	}
}

// The codes of waitid(2) for an end; x/sys has no names for them.
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

// othersGoOn gives what is left the time to end, and says whether it did not.
// The inner process is a child of the outer one, which is stopped: so its number
// is not given to another. When it is ending itself, nothing is left, but files
// in memory may take their time to be freed.
func othersGoOn(outer int) bool {
	all, err := processes()
	if err != nil {
		return false // /proc is gone: nothing that could be done
	}
	deadline := time.Now().Add(linger)
	for _, p := range all {
		if p.ppid == outer && !p.zombie && !endsBy(p.pid, deadline) && !ending(p.pid) {
			return true
		}
	}
	return false
}

// endsBy waits for the end of a process.
func endsBy(pid int, deadline time.Time) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true // gone
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
