//go:build !unix

package worker

import "os/exec"

func exitStatus(err *exec.ExitError) int { return err.ExitCode() }
