//go:build unix

package worker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// runGroup runs cmd in a process group of its own, so that its end takes the
// processes with it that it has started. It returns when the program has ended
// and its pipes are closed.
func runGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = commandKillDelay
	var kill *time.Timer
	cmd.Cancel = func() error {
		kill = time.AfterFunc(commandKillDelay, func() { _ = signalGroup(cmd, syscall.SIGKILL) })
		return signalGroup(cmd, syscall.SIGTERM)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if kill != nil {
		kill.Stop()
	}
	if kill != nil || errors.Is(err, exec.ErrWaitDelay) {
		_ = signalGroup(cmd, syscall.SIGKILL)
	}
	return err
}

// signalGroup signals the group that cmd leads. While a member lives the
// system gives its number to nobody else.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
