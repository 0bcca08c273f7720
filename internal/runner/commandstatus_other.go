//go:build !unix

package runner

import "os/exec"

func exitStatus(err *exec.ExitError) int { return err.ExitCode() }
