package sandbox

import (
	"os/exec"
	"testing"
)

// A process that executes one program after the other has its mark all the time.
func TestMarkOfOneThatExecutes(t *testing.T) {
	const again = `exec /bin/sh -c "$0" "$0"`
	cmd := exec.Command("/bin/sh", "-c", again, again)
	cmd.Env = []string{markVariable + "=here"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const reads = 20_000
	missed := 0
	for range reads {
		if markOf(cmd.Process.Pid) != "here" {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d times it had none", missed, reads)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// That there is none is found in the end, also of one that has no command line either.
func TestMarkOfOneWithoutAny(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "60")
	cmd.Env = []string{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if m := markOf(cmd.Process.Pid); m != "" {
		t.Errorf("its mark is %q", m)
	}
	_ = cmd.Process.Kill()
	if m := markOf(cmd.Process.Pid); m != "" { // a zombie
		t.Errorf("its mark is %q", m)
	}
	_ = cmd.Wait() // it was killed
}
