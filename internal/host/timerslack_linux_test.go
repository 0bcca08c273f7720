package host

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// childEnv makes the test program a child that raises its slack and prints its process id,
// its slack and its first argument.
const childEnv = "TIMERSLACK_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := RaiseTimerSlack(time.Millisecond); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	now, err := timerSlack()
	fmt.Println(os.Getpid(), now, err, os.Args[1])
}

// child runs the test program as a child and returns what it printed.
func child(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "argument")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := fmt.Sprint(cmd.Process.Pid, " "); len(out) < len(want) || string(out[:len(want)]) != want {
		t.Fatalf("the process id changed from %s: %s", want, out)
	}
	return string(out[len(fmt.Sprint(cmd.Process.Pid))+1:])
}

func TestRaise(t *testing.T) {
	if now, err := timerSlack(); err != nil || now != defaultSlack {
		t.Skipf("this process has a slack of %v (%v), not the kernel's default", now, err)
	}
	if got, want := child(t), "1ms <nil> argument\n"; got != want {
		t.Fatalf("the child printed %q, want %q", got, want)
	}
}

// A slack that was set before the start stays.
func TestRaiseKeepsASlackThatWasSet(t *testing.T) {
	runtime.LockOSThread() // the slack belongs to the thread
	defer runtime.UnlockOSThread()
	before, err := timerSlack()
	if err != nil {
		t.Fatal(err)
	}
	if err := setTimerSlack(200 * time.Microsecond); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := setTimerSlack(before); err != nil {
			t.Error(err)
		}
	}()
	if got, want := child(t), "200µs <nil> argument\n"; got != want {
		t.Fatalf("the child printed %q, want %q", got, want)
	}
}
