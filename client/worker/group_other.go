//go:build !unix

package worker

import "os/exec"

// runGroup runs cmd. There are no process groups here: what the program has
// started outlives it.
func runGroup(cmd *exec.Cmd) error {
	cmd.WaitDelay = commandKillDelay
	return cmd.Run()
}
