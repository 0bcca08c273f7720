package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A namespace with many files in its memory takes long to end. The delay does not count
// as a process that was left behind.
func TestManyFilesAreNotLeftBehind(t *testing.T) {
	limits := small
	limits.Memory, limits.CPU, limits.Timeout = 1<<30, 50*time.Second, 50*time.Second
	output(t, bench(t, Namespace, limits), py("import os\nfor i in range(200_000): os.mknod(str(i))"))
}

func TestEnding(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	check(t, cmd.Start())
	pid := cmd.Process.Pid
	if ending(pid) || ending(os.Getpid()) {
		t.Error("it goes on")
	}
	check(t, cmd.Process.Kill())
	await(t, "the zombie", func() bool { p, ok := readProc(pid); return ok && p.zombie })
	if !ending(pid) {
		t.Error("it has ended, and nobody has waited for it yet")
	}
	_ = cmd.Wait() // it was killed
	if !ending(pid) {
		t.Error("it is gone")
	}
}

// An operator may stop all that a worker runs, and let it go on.
func TestStoppedNamespaceGoesOn(t *testing.T) {
	b := bench(t, Namespace, small)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Run(limited(t), sh("sleep 1"))
		ended <- err
	}()
	var outer proc
	await(t, "the command", func() bool {
		all := ofUID(t, ownUID(b))
		for _, p := range all {
			if p.ppid == os.Getpid() && b.running.leads(p.pid) {
				outer = p
			}
		}
		return outer.pid != 0 && len(all) >= 3
	})
	check(t, unix.Kill(outer.pid, unix.SIGSTOP))
	await(t, "the stop", func() bool { p, _ := readProc(outer.pid); return p.stopped })
	check(t, unix.Kill(outer.pid, unix.SIGCONT))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// ownUID is the user id of the one command that a box of a test runs.
func ownUID(b *Box) int {
	if b.uids == nil {
		return os.Getuid()
	}
	return b.uids.within.First + 1 + int(b.uids.next.Load()%int64(b.uids.within.Count-1))
}

// On some systems bwrap is a script that executes the program itself.
func TestScriptAroundBwrap(t *testing.T) {
	b := bench(t, Namespace, small)
	dir := openDir(t)
	script := filepath.Join(dir, "bwrap")
	check(t, os.WriteFile(script, []byte("#!/bin/sh\nexec "+b.bwrap+` "$@"`+"\n"), 0o755))
	b.bwrap = script
	if got := output(t, b, sh("echo works")); got != "works\n" {
		t.Errorf("got %q", got)
	}
}
