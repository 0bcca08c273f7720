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
	requests chan launch
	ended    chan struct{}
}

type launch struct {
	cmd     *exec.Cmd
	limits  []limit
	before  func(pid int) // called before the program's first instruction
	started chan error
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
	l := &launcher{requests: make(chan launch), ended: make(chan struct{})}
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
		req.started <- startTraced(req)
	}
}

// close ends the thread, and with it what it has started and still runs.
func (l *launcher) close() {
	close(l.requests)
	<-l.ended
}

// start starts a program with limits in force.
func (l *launcher) start(cmd *exec.Cmd, limits []limit, before func(pid int)) error {
	req := launch{cmd: cmd, limits: limits, before: before, started: make(chan error, 1)}
	l.requests <- req
	return <-req.started
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
		_ = req.cmd.Process.Kill() // an error says that it has ended
		_ = req.cmd.Wait()         // what counts is why it was killed
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
	req.before(pid)
	if err := unix.PtraceDetach(pid); err != nil {
		return fmt.Errorf("let the program go: %w", err)
	}
	return nil
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
