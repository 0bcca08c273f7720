package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a program that was started here.
type process struct {
	name     string
	cmd      *exec.Cmd
	stopping atomic.Bool
	done     chan struct{}
	err      error // how it ended; valid after done
}

// stopTimeout is the time in which a process may end by itself.
const stopTimeout = 20 * time.Second

// start runs a program. If the program ends before stop, fail gets the reason. It has a process
// group of its own, so that Ctrl-C reaches it only through stop: the workers must stop while
// their cluster still answers.
func start(name string, cmd *exec.Cmd, fail func(error)) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		if !p.stopping.Load() {
			fail(fmt.Errorf("%s ended by itself (%v)", name, cmd.ProcessState))
		}
		close(p.done)
	}()
	return p, nil
}

// stop ends the process as Ctrl-C would, then with SIGKILL if needed, and waits for its end. It
// may be called again.
func (p *process) stop() error {
	p.stopping.Store(true)
	err := p.cmd.Process.Signal(os.Interrupt)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.done
		return fmt.Errorf("%s did not stop within %v", p.name, stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended badly: %w", p.name, p.err)
	}
	return nil
}

// openLog makes a file for a program's output.
func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}
