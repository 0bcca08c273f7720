package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// process is a program that runs until the test ends it.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  output
	done chan struct{}
	err  error // valid when done is closed
}

// output is the text that a program has written so far. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// limit bounds the run time of every program of the tests.
const limit = 2 * time.Minute

// start starts a program; env comes on top of the test's own environment.
func start(t *testing.T, name, dir string, env []string, command ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = 5 * time.Second // for child processes that keep its output open
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
		timer.Stop()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s: %v\n%s", name, p.err, p.out.String())
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v to %s: %v", s, p.name, err)
	}
}

// kill ends the program with SIGKILL, if it runs.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// ended waits for the program's end, which must come within d and be a good one.
func (p *process) ended(d time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
		if p.err != nil {
			p.t.Fatalf("%s: %v", p.name, p.err)
		}
	case <-time.After(d):
		p.t.Fatalf("%s has not ended within %v", p.name, d)
	}
}

// run runs a program, which must succeed, and returns its stdout.
func run(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	stdout, stderr, err := attempt(t, dir, env, command...)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, stdout, stderr)
	}
	return stdout
}

// attempt runs a program, which may fail; err is that of exec.Cmd.Wait.
func attempt(t *testing.T, dir string, env []string, command ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command(command[0], command[1:]...)
	var errors output
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &errors
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err = cmd.Wait()
	return out.String(), errors.String(), err
}

// servers returns the environment that names the nodes of c.
func servers(c *cluster.Cluster) string { return "OSQUEUE_SERVERS=" + strings.Join(c.Servers(), ",") }

// eventually asks cond again and again until it returns nil.
func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	if err := cluster.Poll(30*time.Second, cond); err != nil {
		t.Fatalf("waited for %s: %v", what, err)
	}
}

// fromRoot returns a path of the source tree.
func fromRoot(parts ...string) string {
	return filepath.Join(append([]string{cluster.Root()}, parts...)...)
}
