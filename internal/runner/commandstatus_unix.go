//go:build unix

package runner

import (
	"os/exec"
	"syscall"
)

// exitStatus returns the status that a shell would report.
func exitStatus(err *exec.ExitError) int {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return err.ExitCode()
}
