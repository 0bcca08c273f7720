package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcher starts programs from a thread of its own; see the package comment.
type launcher struct {
	requests chan func()
	ended    chan struct{}
}

type launch struct {
	cmd    *exec.Cmd
	limits []limit
	before func(pid int) error // called before the program's first instruction
	hold   bool                // stop the program at its exit; see awaitEnd
}

// limit is one of setrlimit(2).
type limit struct {
	resource   int
	soft, hard uint64
}

// workerHasNoPrivs says whether the worker was started with no_new_privs. It is
// asked before a launcher sets it for its thread, which may be the one that /proc
// shows for the whole process.
var workerHasNoPrivs = sync.OnceValue(func() bool {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && set == 1
})

func newLauncher() (*launcher, error) {
	workerHasNoPrivs()
	l := &launcher{requests: make(chan func()), ended: make(chan struct{})}
	ready := make(chan error, 1)
	go l.run(ready)
	if err := <-ready; err != nil {
		<-l.ended
		return nil, err
	}
	return l, nil
}

func (l *launcher) run(ready chan<- error) {
	defer close(l.ended)
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		ready <- fmt.Errorf("set no_new_privs: %w", err)
		return
	}
	ready <- nil
	for req := range l.requests {
		req()
	}
}

// close ends the thread, and with it what it has started and still runs.
func (l *launcher) close() {
	close(l.requests)
	<-l.ended
}

// do calls f on the launcher's thread.
func (l *launcher) do(f func()) {
	done := make(chan struct{})
	l.requests <- func() {
		defer close(done)
		f()
	}
	<-done
}

// start starts a program with limits in force.
func (l *launcher) start(req launch) (err error) {
	l.do(func() { err = startTraced(req) })
	return err
}

var errNotStopped = errors.New("the program did not stop at its start")

// startTraced must run on a locked thread: only the thread that has started a
// traced program may let go of it.
func startTraced(req launch) error {
	req.cmd.SysProcAttr.Ptrace = true
	req.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := req.cmd.Start(); err != nil {
		return err
	}
	err := confine(req)
	if err != nil {
		// Without CAP_KILL root may not signal another user, but a tracer may.
		_ = unix.PtraceCont(req.cmd.Process.Pid, int(unix.SIGKILL)) // an error says that it is not stopped
		_ = req.cmd.Process.Kill()                                  // an error says that it has ended
		_ = req.cmd.Wait()                                          // what counts is why it was killed
	}
	return err
}

func confine(req launch) error {
	pid := req.cmd.Process.Pid
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the program's start: %w", err)
		}
		break
	}
	if !status.Stopped() {
		return errNotStopped
	}
	if err := setLimits(pid, req); err != nil {
		return err
	}
	if err := req.before(pid); err != nil {
		return err
	}
	if err := letGo(pid, req.hold); err != nil {
		return fmt.Errorf("let the program go: %w", err)
	}
	return nil
}

func letGo(pid int, hold bool) error {
	if !hold {
		return unix.PtraceDetach(pid)
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT); err != nil {
		return err
	}
	return unix.PtraceCont(pid, 0)
}

// setLimits sets them on the stopped program. For that one must have its real
// user id, or a capability that containers often lack. So this thread takes the
// id for the moment. Nobody else has it, and the program itself stands still, so
// that nobody can signal this thread by it.
func setLimits(pid int, req launch) error {
	if cred := req.cmd.SysProcAttr.Credential; cred != nil {
		if err := setReal(int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
		defer func() { _ = setReal(0, 0) }() // the saved ids allow it always
	}
	for _, l := range req.limits {
		if err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.soft, Max: l.hard}, nil); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.resource, l.soft, err)
		}
	}
	return nil
}

// setReal changes the real ids of this thread only; the functions of x/sys
// would change those of all.
func setReal(uid, gid int) error {
	const unchanged = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), unchanged, unchanged); errno != 0 {
		return fmt.Errorf("take the command's group: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), unchanged, unchanged); errno != 0 {
		return fmt.Errorf("take the command's user: %w", errno)
	}
	return nil
}
