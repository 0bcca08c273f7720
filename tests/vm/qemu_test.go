//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"osqueue/tests/vm/plan"
)

// pretend replaces qemu by a script, and returns a machine that runs it.
func pretend(t *testing.T, script string) (machine, *strings.Builder) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", dir)
	for name, content := range map[string]string{emulators[runtime.GOARCH].program: "#!/bin/sh\n" + script, "kvm": "", "a.cpio": "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	return machine{
		arch: runtime.GOARCH, kernel: "kernel", archives: []string{filepath.Join(dir, "a.cpio")}, out: &out,
		kvm: filepath.Join(dir, "kvm"), patience: time.Minute,
	}, &out
}

func TestTheMachinesWordCounts(t *testing.T) {
	for _, c := range []struct {
		name, script string
		status       int
		fails        string
	}{
		{name: "all is well", script: `printf 'vm: booted\r\ntalk\r\nvm: exit 0\r\n'`},
		{name: "tests failed", script: `echo vm: booted; echo vm: exit 7`, status: 7},
		{name: "a panic", script: `echo vm: booted; echo Kernel panic`, fails: "stopped before"},
		{name: "qemu fails", script: `echo vm: booted; echo no memory >&2; exit 1`, fails: "no memory"},
		{name: "qemu fails late", script: `echo vm: exit 0; exit 1`, fails: "exit status 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := pretend(t, c.script)
			status, err := m.boot(t.Context(), "auto")
			if status != c.status || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("status %d, %v", status, err)
			}
			if left, err := filepath.Glob(os.Getenv("TMPDIR") + "/osqueue-vm-*"); err != nil || len(left) > 0 {
				t.Errorf("remain: %v, %v", left, err)
			}
		})
	}
}

// A machine without output counts as one that KVM cannot run, whether it hangs or ends.
func TestEmulationWhereKVMDoesNotRun(t *testing.T) {
	for name, kvm := range map[string]string{"it hangs": "exec sleep 600", "it ends": "echo failed to set MSR >&2; exit 134"} {
		t.Run(name, func(t *testing.T) {
			m, out := pretend(t, `case "$*" in *"-accel kvm"*) `+kvm+`;; esac; echo vm: booted; echo vm: exit 0`)
			m.patience = 50 * time.Millisecond
			if status, err := m.boot(t.Context(), "auto"); status != 0 || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
			if !strings.Contains(out.String(), "now in emulation") {
				t.Errorf("it said %s", out)
			}
		})
	}
}

// A machine that hangs is ended at its timeout.
func TestHangingMachineIsEnded(t *testing.T) {
	m, _ := pretend(t, `echo vm: booted; exec sleep 600`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.boot(ctx, "tcg"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestExitLineIsReadBack(t *testing.T) {
	if n, ok := plan.ParseExit(plan.ExitLine(3) + "\r"); n != 3 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for _, line := range []string{"", "vm: exit", "vm: exit x", "a vm: exit 0", plan.Booted} {
		if n, ok := plan.ParseExit(line); ok {
			t.Errorf("%q is %d", line, n)
		}
	}
}
