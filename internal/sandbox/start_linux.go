package sandbox

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// startTime bounds the steps of a helper, above all its look at the paths of a guard.
const startTime = time.Minute

// start starts the helper of a command and lets it execute the program. It gives up when ctx ends.
func (c *confined) start(ctx context.Context, cmd *exec.Cmd) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make the socket to the helper: %w", err)
	}
	_ = unix.SetNonblock(fds[0], true) // for the deadline
	ours, theirs := os.NewFile(uintptr(fds[0]), "helper"), os.NewFile(uintptr(fds[1]), "worker")
	defer ours.Close()
	cmd.ExtraFiles = append([]*os.File{theirs}, cmd.ExtraFiles...)
	started := make(chan error, 1)
	c.ended = make(chan error, 1)
	go c.keep(cmd, started)
	err = <-started
	theirs.Close()
	if err == nil && c.begun != nil {
		err = c.begun()
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = ours.SetDeadline(time.Unix(1, 0)) })
		err = c.direct(ours)
		if !stop() {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		ours.Close() // the helper ends without an order, and then bwrap
		if c.leader != 0 {
			_ = unix.Kill(c.leader, unix.SIGCONT) // if hold has stopped it
		}
		ending := time.AfterFunc(KillDelay, c.end)
		<-c.ended //nolint:errcheck // err says why
		ending.Stop()
	}
	return err
}

// keep starts a program and waits for its end on one thread, which has no_new_privs. The
// parent-death signal of the program fires when this thread ends, so the goroutine keeps the
// thread, which ends with it.
func (c *confined) keep(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	err := c.begin(cmd)
	started <- err
	if cmd.Process == nil {
		c.ended <- nil
		return
	}
	c.ended <- cmd.Wait()
}

var errHidden = errors.New("/proc does not show the worker what its commands run (mount option hidepid, ProtectProc= of systemd): " +
	"that takes the capability CAP_SYS_PTRACE")

// begin starts and records the command's first process, which waits for its order. It fails
// if /proc hides the process: the worker could then neither reap the command's zombies nor
// free their user id.
func (c *confined) begin(cmd *exec.Cmd) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if _, ok := readProc(pid); !ok {
		return errHidden
	}
	c.leader = pid
	c.running.add(pid, c.mark)
	return nil
}

// direct gives the helper its order. The limits of the control group start when the helper,
// which has more threads than many a limit allows, is ready to execute the program. If the
// helper ends before, direct returns nil; the command then fails with what it wrote.
func (c *confined) direct(helper *os.File) error {
	if err := helper.SetDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	if err := gob.NewEncoder(helper).Encode(c.order); errors.Is(err, unix.EPIPE) {
		return nil
	} else if err != nil {
		return fmt.Errorf("give the helper its order: %w", err)
	}
	if err := readReply(helper); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("restrict the program: %w", err)
	}
	if c.group != nil {
		if err := c.group.bound(c.box.groups, c.groupLimits()); err != nil {
			return err
		}
	}
	if c.hold != nil {
		if err := c.hold(); err != nil {
			return err
		}
	}
	if _, err := helper.Write([]byte{1}); err == nil {
		if err := readReply(helper); !errors.Is(err, io.EOF) {
			return &os.PathError{Op: "exec", Path: c.order.Program, Err: err}
		}
		c.started = true
	}
	return nil
}
