package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startAs starts a script as a user and waits for its first line.
func startAs(t *testing.T, uid int, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", "-Ic", script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// sleeps writes a line, and then sleeps.
const sleeps = "import time; print(flush=True); time.sleep(600)"

// end kills a process and waits for it.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // fails only if it has ended
	_ = cmd.Wait()         // it was killed
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
}

// killAll ends all processes of a user id, also one that no walk of /proc finds, and no
// others. The worker's threads belong to root before and after.
func TestKillAll(t *testing.T) {
	needRoot(t)
	const victims, bystanders = 1_910_000_040, 1_910_000_041
	pool, err := newUIDPool(t.TempDir(), UIDRange{First: 1_910_000_042, Count: 3})
	check(t, err)
	other := startAs(t, bystanders, sleeps)
	own := startAs(t, 0, sleeps)
	first := startAs(t, victims, "import os\nprint(flush=True)\n"+hoppingDaemon)
	_ = first.Wait() // another process continues
	if !hasProcesses(victims) {
		t.Fatal("nobody is there to be killed")
	}
	check(t, (&uidLoan{uid: victims, pool: pool}).killAll())
	rest := &family{loan: &uidLoan{uid: victims}, running: everyRunning}
	await(t, "the end of all", func() bool { return !rest.goesOn() })
	for name, cmd := range map[string]*exec.Cmd{"another user's": other, "the worker's": own} {
		if p, ok := readProc(cmd.Process.Pid); !ok || p.zombie {
			t.Errorf("%s process was ended, too", name)
		}
		end(cmd)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err == nil && !strings.Contains(string(text), "\nUid:\t0\t0\t0\t0\n") {
			t.Errorf("a thread has another user:\n%s", text)
		}
	}
}

// A thread that may signal others is found out.
func TestThreadThatMaySignalOthers(t *testing.T) {
	needRoot(t)
	for _, c := range []struct{ uid, nobody int }{{0, 0}, {1_910_000_040, 0}, {0, 1_910_000_041}} {
		if err := onlyOwn(c.uid, c.nobody); err == nil {
			t.Errorf("root may signal %d and %d only", c.uid, c.nobody)
		}
	}
}

// An id that another program uses is not lent, and its processes stay alive. If an id's
// processes may still run, the id stays marked as in use.
func TestUserIDsOfOthers(t *testing.T) {
	needRoot(t)
	pool, err := newUIDPool(t.TempDir(), UIDRange{First: 1_910_000_043, Count: 3})
	check(t, err)
	cmd := startAs(t, 1_910_000_044, sleeps)
	for range 3 {
		loan, err := pool.take(t.Context())
		check(t, err)
		if loan.uid != 1_910_000_045 {
			t.Errorf("%d was lent", loan.uid)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := pool.take(ended); !errors.Is(err, errNoUID) || !errors.Is(err, context.Canceled) {
			t.Errorf("an id in use was lent, or: %v", err)
		}
		if err := loan.end(); err != nil {
			t.Error(err)
		}
	}
	if p, ok := readProc(cmd.Process.Pid); !ok || p.zombie {
		t.Error("a process of somebody else was ended")
	}
	end(cmd)

	loan, err := pool.take(t.Context())
	check(t, err)
	cmd = startAs(t, loan.uid, sleeps)
	if err := loan.end(); err == nil {
		t.Error("the id was given back though it has a process")
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for range 2 { // the next one who takes it ends what is left
		loan, err := pool.take(t.Context())
		check(t, err)
		defer loan.file.Close()
	}
	if err := <-done; err == nil {
		t.Error("it ended well")
	}
}

// If other programs use the whole range, take fails at once and does not wait.
func TestRangeOfOthers(t *testing.T) {
	needRoot(t)
	const first = 1_910_000_052
	all := UIDRange{First: first, Count: 2}
	pool, err := newUIDPool(t.TempDir(), all)
	check(t, err)
	for id, use := range map[int]func() error{
		first:     func() error { _, err := newUIDPool(t.TempDir(), all); return err },
		first + 1: func() error { _, err := pool.take(limited(t)); return err },
	} {
		cmd := startAs(t, id, sleeps)
		if err := use(); !errors.Is(err, errForeign) {
			t.Errorf("%d: got %v", id, err)
		}
		end(cmd)
	}
}

// Where there are no more ids than commands at once, or fewer, commands wait for one:
// none fails because others have to be ended.
func TestFewUserIDs(t *testing.T) {
	needRoot(t)
	dir := openDir(t)
	for _, ids := range []int{2, 5} {
		b, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: dir, UIDs: UIDRange{First: 1_910_000_054, Count: ids}})
		check(t, err)
		ended := make(chan error)
		for lane := range 4 {
			go func() {
				var failed error
				for range 5 {
					script, want := "exit 0", error(nil)
					if lane == 0 {
						script, want = "setsid sleep 600 >/dev/null 2>&1 & exit 0", ErrLeftBehind
					}
					if _, err := b.Run(limited(t), sh(script)); !errors.Is(err, want) {
						failed = fmt.Errorf("%s: got %w", script, err)
					}
				}
				ended <- failed
			}()
		}
		for range 4 {
			if err := <-ended; err != nil {
				t.Errorf("with %d: %v", ids, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// onLaterThread leaves the first thread alone, even if that thread is free.
func TestOnLaterThread(t *testing.T) {
	for range 2000 {
		err := onLaterThread(func() (bool, error) {
			if unix.Gettid() == unix.Getpid() {
				return true, errors.New("on the first thread")
			}
			return true, nil
		})
		check(t, err)
	}
}
