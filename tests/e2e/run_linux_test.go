package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// result runs a command line with stdin, and says what became of it.
func (d *devProcess) result(stdin string, args ...string) clitest.Result {
	d.t.Helper()
	cmd := d.command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	limit := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return clitest.Result{Out: out.String(), Err: errOut.String(), Code: cmd.ProcessState.ExitCode()}
}

// Commands on three nodes: their output and exit status, Ctrl-C, many of them
// with the leader killed meanwhile, and a bar on a terminal.
func TestCommandsOnACluster(t *testing.T) { //nolint:tparallel // the parts share a cluster
	t.Parallel()
	d := newDevProcess(t)
	d.start()
	d.worker("--commands", "command", "--sandbox", "none")
	t.Run("run", d.walkRun)
	t.Run("run, and Ctrl-C", d.walkRunInterrupted)
	t.Run("map", d.walkMap)
	t.Run("map, and Ctrl-C", d.walkMapInterrupted)
	t.Run("map, and nobody reads its output", d.walkMapUnread)
	t.Run("submit --wait on a terminal", d.walkBar)
}

func (d *devProcess) walkRun(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  clitest.Result
	}{
		{"", []string{"echo", "a  b", "$HOME"}, clitest.Result{Out: "a  b $HOME\n"}},
		{"three little words", []string{"wc", "-w"}, clitest.Result{Out: "3\n"}},
		{"", []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, clitest.Result{Out: "out\n", Err: "err\n", Code: 3}},
		{"", []string{"sh", "-c", "kill -9 $$"}, clitest.Result{Code: 128 + 9}},
	} {
		if got := d.result(c.stdin, append([]string{"run", "--"}, c.args...)...); got != c.want {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if got := d.result("", "run", "--", "no-such-program-here"); got.Code != 127 || !strings.Contains(got.Err, "no-such-program-here") {
		t.Errorf("%+v", got)
	}
	if got := d.result("", "run", "--job-timeout", "300ms", "--max-attempts", "1", "--", "sleep", "600"); got.Code != view.ExitNotRun || !strings.Contains(got.Err, "is dead") {
		t.Errorf("%+v", got)
	}
}

func (d *devProcess) walkRunInterrupted(t *testing.T) {
	file := filepath.Join(d.dir, "running")
	cmd := d.command("run", "--id", "stopped", "--lease", "3s", "--", "sh", "-c", "echo $$ > "+file+"; exec sleep 600")
	var errOut clitest.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	d.eventually("the command to run", func() bool {
		text, _ := os.ReadFile(file)
		n, _ := fmt.Sscan(string(text), &pid)
		return n == 1
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = end(cmd)
	if code := cmd.ProcessState.ExitCode(); code != view.ExitInterrupted || !strings.Contains(errOut.String(), "job stopped is cancelled") {
		t.Errorf("exit status %d: %s", code, errOut.String())
	}
	d.eventually("the command to be gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// numbered returns n lines, which are the numbers from 0.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// walkMapUnread closes the output of a map: its jobs continue, and it prints how to wait
// for them again.
func (d *devProcess) walkMapUnread(t *testing.T) {
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := unread.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := d.command("map", "-", "-q", "--keep-order", "--name", "unread", "--", "sh", "-c", `test "$1" = 0 || sleep 600; echo "$1"`, "sh")
	var errOut clitest.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(numbered(2)), out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end(cmd)
	if code := cmd.ProcessState.ExitCode(); code != view.ExitClosedPipe || !strings.Contains(errOut.String(), "osqueue: 1 job continues; ") ||
		!strings.Contains(errOut.String(), "--name unread") {
		t.Errorf("exit status %d: %s", code, errOut.String())
	}
	d.run("job", "cancel", "--tag", "unread", "--yes")
}

func (d *devProcess) walkMap(t *testing.T) {
	const n = 400
	cmd := d.command("map", "-", "--keep-order", "-n", "50", "--name", "kill", "--", "sh", "-c", `echo "$1"; exit $(($1 % 200 == 7))`, "sh")
	var out, errOut clitest.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(numbered(n)), &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	d.eventually("some output", func() bool { return strings.Count(out.String(), "\n") > n/8 })
	old := d.leader("")
	if err := syscall.Kill(old.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != view.ExitSomeFailed || out.String() != numbered(n) {
		t.Errorf("exit status %d, %d lines: %s", code, strings.Count(out.String(), "\n"), errOut.String())
	}
	for _, want := range []string{"line 8: exit status 1\n", "line 208: exit status 1\n", "400 of 400 commands", "2 failed"} {
		if !strings.Contains(errOut.String(), want) {
			t.Errorf("%q is missing: %s", want, errOut.String())
		}
	}
	d.eventually("the killed node to be back", func() bool {
		_, back := d.statuses()[old.NodeID]
		return back
	})
}

// walkMapInterrupted checks that commands that ended before Ctrl-C do not run again.
func (d *devProcess) walkMapInterrupted(t *testing.T) {
	file, ready := filepath.Join(d.dir, "runs"), filepath.Join(d.dir, "ready")
	script := "echo {} >> " + file + "; test {} -lt 20 || until test -e " + ready + "; do sleep 0.05; done; echo {}"
	line := []string{"map", "-", "--keep-order", "-n", "30", "--name", "again", "-q", "--", "sh", "-c", script}
	cmd := d.command(line...)
	var out, errOut clitest.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(numbered(40)), &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.eventually("half of the output", func() bool { return strings.Count(out.String(), "\n") == 20 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = end(cmd)
	if code := cmd.ProcessState.ExitCode(); code != view.ExitInterrupted || !strings.Contains(errOut.String(), "--name again") {
		t.Errorf("exit status %d: %s", code, errOut.String())
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.result(numbered(40), line...); got != (clitest.Result{Out: numbered(40)}) {
		t.Errorf("%+v", got)
	}
	runs, err := os.ReadFile(file)
	if err != nil || strings.Count(string(runs), "\n") != 40 {
		t.Errorf("%d commands were run, %v", strings.Count(string(runs), "\n"), err)
	}
}

// walkBar has stdin, stdout and stderr on a terminal.
func (d *devProcess) walkBar(t *testing.T) {
	terminal, side := openTerminal(t)
	file := filepath.Join(d.dir, "numbers")
	if err := os.WriteFile(file, []byte(numbered(5)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := d.command("submit", "by-hand", "--file", file, "--wait")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	side.Close()
	var shown clitest.Buffer
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&shown, terminal) // ends with an error when the other side is closed
	}()
	limit := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	d.eventually("an empty bar", func() bool { return strings.Contains(shown.String(), strings.Repeat("░", 24)+" 0/5") })
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	for left := 5; left > 0; {
		jobs, err := d.client.Claim(ctx, client.ClaimOptions{Worker: "hand", Types: []string{"by-hand"}, Max: 2, Wait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			if err := d.client.Complete(ctx, job.Lease(), job.Payload); err != nil {
				t.Fatal(err)
			}
			left--
		}
		if left == 3 {
			d.eventually("a bar that grows", func() bool {
				return strings.Contains(shown.String(), strings.Repeat("▌", 10)+strings.Repeat("░", 14)+" 2/5")
			})
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, shown.String())
	}
	<-copied
	if text := shown.String(); strings.Count(text, "\t"+v1.StatusCompleted+"\t") != 5 || !strings.Contains(text, view.BarClear+"submitted 5 jobs") && !strings.Contains(text, "\nsubmitted 5 jobs") {
		t.Errorf("%q", text)
	}
}

// openTerminal makes a terminal; side is where a program is on it.
func openTerminal(t *testing.T) (terminal, side *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	fd := int(terminal.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return terminal, side
}
