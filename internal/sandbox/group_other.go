//go:build !unix

package sandbox

import (
	"context"
	"os/exec"
)

// group is the cell of None. This system has no process groups: processes that the
// program has started outlive it.
type group struct{ cmd *exec.Cmd }

func (g *group) prepare(program string, c Command) (*exec.Cmd, error) {
	g.cmd = exec.Command(program, c.Args[1:]...)
	g.cmd.Env = append(g.cmd.Environ(), c.Env...)
	return g.cmd, nil
}

func (g *group) start(_ context.Context, cmd *exec.Cmd) error { return cmd.Start() }
func (g *group) wait(cmd *exec.Cmd) error                     { return cmd.Wait() }

func (g *group) terminate() { g.kill() }

func (g *group) kill() {
	if g.cmd != nil && g.cmd.Process != nil {
		_ = g.cmd.Process.Kill() // fails only if the process has ended
	}
}

func (g *group) sweep() bool             { return false }
func (g *group) explain(*exec.Cmd) error { return nil }
func (g *group) close() error            { return nil }
