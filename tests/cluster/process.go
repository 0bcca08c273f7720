package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process that can be started again after its end, and its log. It is safe for
// concurrent use.
type process struct {
	Name string
	Dir  string // its own; the log is in there

	cluster *Cluster

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how the last one ended
}

// launch runs a program.
func (p *process) launch(binary string, args ...string) {
	c := p.cluster
	c.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		c.tb.Fatalf("%s is running", p.Name)
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		c.tb.Fatal(err)
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.opt.Env...)
	if c.opt.FaultClock {
		cmd.Env = append(cmd.Env, faultClockEnv+"="+p.clockPath(), faultDiskEnv+"="+p.hangPath())
	}
	start := cmd.Start
	if c.links != nil {
		start = func() error { return c.links.Start(p.Name, cmd) }
	}
	if err := start(); err != nil {
		c.tb.Fatal(err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go p.wait(cmd, p.done)
}

func (p *process) wait(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	p.cmd, p.err = nil, err
	p.mu.Unlock()
	close(done)
}

// Running reports whether the process is alive.
func (p *process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Pid returns the process id, or 0 if the process does not run.
func (p *process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *process) Kill() { p.signalAndWait(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and waits for its end. It returns the error of the
// process.
func (p *process) Stop() error {
	p.signalAndWait(syscall.SIGTERM)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Terminate sends SIGTERM and does not wait for the end.
func (p *process) Terminate() { p.signal(syscall.SIGTERM) }

// Pause stops the process with SIGSTOP: it stays alive, and does nothing. Pause returns when all
// threads have stopped; one that writes to the disk delays that, and the others run meanwhile.
func (p *process) Pause() {
	if p.signal(syscall.SIGSTOP) == nil {
		return
	}
	err := Poll(pausedWithin, func() error {
		var stopped unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Pid(), &stopped, unix.WSTOPPED|unix.WNOHANG, nil)
		if err == nil && stopped.Signo == 0 && p.Running() {
			return errors.New("a thread has not stopped")
		}
		return nil // an error means that it has ended
	})
	if err != nil {
		p.cluster.tb.Logf("%s was not paused within %v: %v", p.Name, pausedWithin, err)
	}
}

const pausedWithin = 10 * time.Second

// Continue wakes a paused process.
func (p *process) Continue() { p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) (done chan struct{}) {
	if p.cluster.shared {
		panic(p.Name + " is a node of a shared cluster: a test that stops it must start a cluster of its own")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		p.cluster.tb.Logf("signal %v to %s: %v", s, p.Name, err)
	}
	return p.done
}

func (p *process) signalAndWait(s syscall.Signal) {
	if done := p.signal(s); done != nil {
		<-done
	}
}

func (p *process) logPath() string { return filepath.Join(p.Dir, "log") }

// Log returns the whole log of the process.
func (p *process) Log() string {
	data, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// LogTail returns the last lines of the log.
func (p *process) LogTail(lines int) string { return lastLines(p.Log(), lines) }

func lastLines(log string, lines int) string {
	all := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
