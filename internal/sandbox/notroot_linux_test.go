package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// plainUser is the user id of TestNotRoot. No other process on the machine has it.
	plainUser = 1_920_000_001
	// asPlainUser marks a test process that has become that.
	asPlainUser = "OSQUEUE_TEST_NOT_ROOT"
)

// runAs runs a test of this binary as plainUser, from a copy that it can read.
func runAs(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; as another user the tests run themselves")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		check(t, os.Chmod(d, 0o777))
	}
	self, err := os.ReadFile("/proc/self/exe")
	check(t, err)
	program := filepath.Join(dir, "sandbox.test")
	check(t, os.WriteFile(program, self, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, "-test.run", test, "-test.v")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "TMPDIR="+dir, asPlainUser+"=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}
	return cmd
}

// The levels hold what they promise for a worker that is not root.
func TestNotRoot(t *testing.T) {
	cmd := runAs(t, "^(TestHostileCommandsFail|TestEnvironmentIsClean|TestWorkerCannotBeRead|TestOwnUserAndDirectory|TestNamespace.*|TestOthersAreLeftAlone)$/^process$")
	t.Parallel() // not before, or a process that starts then keeps the program from being executed
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWorkerCannotBeRead") {
		t.Fatalf("%v\n%s", err, out)
	}
	all, err := processes()
	check(t, err)
	for _, p := range all {
		if p.uid == plainUser {
			t.Errorf("a process remains: %+v", p)
		}
	}
}

// Commands that end while others are being started take none of them for a
// process that was left behind.
func TestManyAtOnceNotRoot(t *testing.T) {
	if os.Getenv(asPlainUser) == "" {
		out, err := runAs(t, "^TestManyAtOnceNotRoot$").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	failAtOnce(t, bench(t, Process, small), howMany(60, 200))
}

// Children that the worker has started in other ways, and other commands with
// what they have started, do not end with a command.
func TestOthersAreLeftAlone(t *testing.T) {
	b := bench(t, Process, small)
	child := exec.Command("sleep", "60")
	check(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	other := make(chan error, 1)
	go func() {
		res, err := b.Run(limited(t), sh(`(setsid sleep 1.5; echo back) & wait; echo front`))
		if err == nil && string(res.Stdout) != "back\nfront\n" {
			err = errors.New(string(res.Stdout))
		}
		other <- err
	}()
	for range 5 {
		if _, err := b.Run(limited(t), sh(`setsid sleep 600 >/dev/null 2>&1 & exit 0`)); !errors.Is(err, ErrLeftBehind) {
			t.Errorf("got %v", err)
		}
	}
	if err := <-other; err != nil {
		t.Errorf("another command: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("a child of the worker was ended: %v", err)
	default:
		child.Process.Kill()
		<-ended
	}
}

// A worker that is killed takes the first process of each command with it; the
// rest ends when the user id is used next.
func TestKilledWorker(t *testing.T) {
	if os.Getenv("OSQUEUE_TEST_VICTIM") != "" {
		victim(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("without user ids what is left by a killed worker is not found")
	}
	dir := openDir(t)
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(limited(t), self, "-test.run", "^TestKilledWorker$")
	cmd.Env = append(os.Environ(), "OSQUEUE_TEST_VICTIM="+dir)
	check(t, cmd.Start())
	await(t, "two processes of the command", func() bool { return len(ofUID(t, victimUID)) == 2 })
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	await(t, "the end of the first process", func() bool { return len(ofUID(t, victimUID)) == 1 })
	b, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: dir, UIDs: UIDRange{First: victimUID - 1, Count: 2}})
	check(t, err)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := ofUID(t, victimUID); len(left) > 0 {
		t.Errorf("%+v remain", left)
	}
	checkEmpty(t, dir)
}

const victimUID = 1_910_100_000

func victim(t *testing.T) {
	b, err := New(t.Context(), Config{
		Level: Process, Limits: small, Dir: os.Getenv("OSQUEUE_TEST_VICTIM"), UIDs: UIDRange{First: victimUID - 1, Count: 2},
	})
	check(t, err)
	// One process that dies with the worker, and one that has left its session.
	_, _ = b.Run(t.Context(), Command{Args: []string{"/bin/sh", "-c", `setsid sleep 300 >/dev/null 2>&1 & exec sleep 300`}})
}

func ofUID(t *testing.T, uid int) (list []proc) {
	t.Helper()
	all, err := processes()
	check(t, err)
	for _, p := range all {
		if p.uid == uid && !p.zombie {
			list = append(list, p)
		}
	}
	return list
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// asLacking marks a test process that lacks something, and names its directory.
const asLacking = "OSQUEUE_TEST_LACKS"

// A worker that is root reports a missing feature at its start, not in its jobs.
func TestMissingFeaturesOfRootFailTheStart(t *testing.T) {
	if dir := os.Getenv(asLacking); dir != "" {
		b, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: dir, UIDs: UIDRange{First: 1_910_000_048, Count: 4}})
		if err != nil {
			t.Log("it says: " + err.Error())
			return
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	needRoot(t)
	for _, tool := range []string{"setpriv", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for _, c := range []struct{ name, before, without, want string }{
		{"processes hidden", "mount -t proc -o hidepid=4 proc /proc", "sys_ptrace", "CAP_SYS_PTRACE"},
		{"files of others", "true", "dac_override,-dac_read_search", "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := openDir(t)
			script := c.before + ` && exec setpriv --bounding-set=-` + c.without + ` "$0" -test.run=^TestMissingFeaturesOfRootFailTheStart$ -test.v`
			cmd := exec.CommandContext(limited(t), "/bin/sh", "-c", script, os.Args[0])
			cmd.Env = append(os.Environ(), asLacking+"="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "it says: this machine does not support the sandbox level process: ") ||
				!strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
