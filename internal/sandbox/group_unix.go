//go:build unix

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// group is the cell of None: a process group.
type group struct{ cmd *exec.Cmd }

func (g *group) prepare(program string, c Command) (*exec.Cmd, error) {
	cmd := exec.Command(program, c.Args[1:]...)
	cmd.Args[0] = c.Args[0]
	cmd.Env = append(os.Environ(), c.Env...) // os/exec keeps the last of several values
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.cmd = cmd
	return cmd, nil
}

func (g *group) start(_ context.Context, cmd *exec.Cmd) error { return cmd.Start() }
func (g *group) wait(cmd *exec.Cmd) error                     { return cmd.Wait() }

func (g *group) terminate() { signalGroup(g.cmd, syscall.SIGTERM) }
func (g *group) kill()      { signalGroup(g.cmd, syscall.SIGKILL) }

// sweep leaves the processes that the program has left behind: at this level the
// operator may want them. Run ends them if they hold the output open.
func (g *group) sweep() bool             { return false }
func (g *group) explain(*exec.Cmd) error { return nil }
func (g *group) close() error            { return nil }

// signalGroup signals the process group that cmd leads. The kernel reuses the group's
// number only after its last member has ended.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if cmd != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, sig) // fails only if no member is left
	}
}
