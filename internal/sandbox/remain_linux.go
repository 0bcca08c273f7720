package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// bwrap runs two processes for a namespace. The inner one is the first process of the
// namespace. It lives as long as any other process there, and the kernel protects it
// from all of them. The outer one ends when the command ends, and then the kernel kills
// the whole namespace. So processes that the command has left can be seen only before
// the outer process is gone. The worker therefore stops it while the command runs. It is
// outside of the namespace, where no command can resume it. If an operator does, what the command
// leaves is ended all the same, but not detected.
//
// Without --die-with-parent, bwrap would keep the namespace after the command's end, but
// also after the end of a killed worker.

// remains are the processes of a namespace by which the worker sees what a command leaves.
type remains struct {
	inner            int
	innerFD, program int // pidfds; 0: none
}

// hold stops the outer process. It is called while the helper waits, so that no other process
// can be below the inner one.
func (n *namespace) hold(outer *exec.Cmd) error {
	all, err := processes()
	if err != nil {
		return err
	}
	child := func(parent int) int {
		for _, p := range all {
			if p.ppid == parent {
				return p.pid
			}
		}
		return 0
	}
	n.inner = child(n.leader)
	if n.innerFD, err = unix.PidfdOpen(n.inner, 0); err != nil {
		return fmt.Errorf("find the first process of the namespace: %w", err)
	}
	if n.program, err = unix.PidfdOpen(child(n.inner), 0); err != nil {
		return fmt.Errorf("find the helper: %w", err)
	}
	if err := outer.Process.Signal(unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop bwrap, for which root needs CAP_KILL: %w", err)
	}
	return nil
}

// wait lets the outer process end when the command has ended, and no other process of the
// namespace goes on or linger is over. If the inner process is ending, no other is left, but the
// kernel may take time to free files in memory. Its number is not reused before the outer
// process, its parent, goes on.
func (n *namespace) wait(outer *exec.Cmd) error {
	if n.program > 0 {
		awaitPidfd(n.program, -1)
		n.left = !awaitPidfd(n.innerFD, linger) && !ending(n.inner)
	}
	_ = outer.Process.Signal(unix.SIGCONT) // fails only if it was killed
	return n.confined.wait(outer)
}

// awaitPidfd reports whether a process ends within d; a negative d is without end.
func awaitPidfd(fd int, d time.Duration) bool {
	deadline := time.Now().Add(d)
	for {
		rest := -1
		if d >= 0 {
			rest = int(max(0, time.Until(deadline)).Milliseconds())
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, rest)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
