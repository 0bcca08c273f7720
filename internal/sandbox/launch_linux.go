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

// launcher starts programs from one locked thread; see the package comment.
type launcher struct {
	requests chan func()
	ended    chan struct{}
}

type launch struct {
	cmd    *exec.Cmd
	limits []limit
	before func(pid int) error // called before the program's first instruction
	hold   bool                // stop the program at its exit; see awaitEnd
	guard  *guard              // nil: the program is not restricted
}

// limit is one argument of setrlimit(2).
type limit struct {
	resource   int
	soft, hard uint64
}

// workerHasNoPrivs reports whether the worker was started with no_new_privs. It must be
// called before a launcher sets the flag for its thread, because /proc may show that
// thread for the whole process.
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

// close ends the thread and, with it, all programs that it has started and that still
// run.
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

// startTraced starts a traced program and detaches from it. It must run on a locked
// thread: only the thread that has started a traced program may detach from it.
func startTraced(req launch) error {
	req.cmd.SysProcAttr.Ptrace = true
	req.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := req.cmd.Start(); err != nil {
		return err
	}
	err := confine(req)
	if err != nil {
		// Without CAP_KILL root may not signal another user, but a tracer may.
		_ = unix.PtraceCont(req.cmd.Process.Pid, int(unix.SIGKILL)) // fails only if it is not stopped
		_ = req.cmd.Process.Kill()                                  // fails only if it has ended
		_ = req.cmd.Wait()                                          // the reason why it was killed is the error that counts
	}
	return err
}

func confine(req launch) error {
	pid := req.cmd.Process.Pid
	status, err := waitStop(pid)
	if err != nil {
		return fmt.Errorf("wait for the program's start: %w", err)
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
	if req.guard != nil {
		if err := restrict(pid, req.guard); err != nil {
			return fmt.Errorf("restrict the program: %w", err)
		}
	}
	if err := letGo(pid, req.hold); err != nil {
		return fmt.Errorf("detach from the program: %w", err)
	}
	return nil
}

// waitStop waits until a traced program stops or ends.
func waitStop(pid int) (status unix.WaitStatus, err error) {
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
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

// setLimits sets the limits on the stopped program. The kernel demands the program's
// real user id, or a capability that containers often lack, so this thread takes the
// user id for the moment. No other command has this id, and the program itself is
// stopped, so no process can signal this thread through it.
func setLimits(pid int, req launch) error {
	if cred := req.cmd.SysProcAttr.Credential; cred != nil {
		if err := setReal(int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
		defer func() { _ = setReal(0, 0) }() // the saved ids always allow it
	}
	for _, l := range req.limits {
		if err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.soft, Max: l.hard}, nil); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.resource, l.soft, err)
		}
	}
	return nil
}

// setReal changes the real ids of this thread only; the functions of x/sys change those
// of all threads.
func setReal(uid, gid int) error {
	const unchanged = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), unchanged, unchanged); errno != 0 {
		return fmt.Errorf("switch to the command's group: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), unchanged, unchanged); errno != 0 {
		return fmt.Errorf("switch to the command's user: %w", errno)
	}
	return nil
}
