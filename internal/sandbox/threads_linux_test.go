package sandbox

import (
	"errors"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// sleepsHeadless is a process whose first thread has ended, while another one runs.
const sleepsHeadless = `
import ctypes, platform, threading, time
threading.Thread(target=lambda: time.sleep(600)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
`

// A process lives while one of its threads does, whatever /proc reports about the first.
func TestNoZombieWhileAThreadGoesOn(t *testing.T) {
	cmd := exec.Command("/usr/bin/python3", "-Ic", sleepsHeadless)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	await(t, "the end of the first thread", func() bool { return ending(pid) })
	if p, ok := readProc(pid); !ok || p.zombie {
		t.Errorf("%+v, %v", p, ok)
	}
	_ = cmd.Process.Kill()
	await(t, "the zombie", func() bool { p, ok := readProc(pid); return ok && p.zombie })
	_ = cmd.Wait() // it was killed
}

// A program that could not be started as it should be is ended, also by a worker that
// may signal no other user.
func TestNoStartWithoutRightToKill(t *testing.T) {
	needRoot(t)
	l, err := newLauncher()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var failed error
	l.do(func() { failed = dropFromThread(unix.CAP_KILL, unix.CAP_SYS_RESOURCE) })
	if failed != nil {
		t.Fatal(failed)
	}
	var has unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &has); err != nil {
		t.Fatal(err)
	}
	c := &confined{family: family{loan: &uidLoan{uid: 1_910_000_046}}}
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Dir = "/"
	cmd.SysProcAttr = c.attributes()
	err = l.start(launch{cmd: cmd, limits: []limit{{unix.RLIMIT_NOFILE, 1, has.Max + 1}}})
	if !errors.Is(err, unix.EPERM) || cmd.ProcessState == nil {
		t.Errorf("got %v, state %v", err, cmd.ProcessState)
	}
}

// dropFromThread takes capabilities from the calling thread.
func dropFromThread(caps ...uint) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	for _, c := range caps {
		sets[c/32].Effective &^= 1 << (c % 32)
		sets[c/32].Permitted &^= 1 << (c % 32)
	}
	return unix.Capset(&header, &sets[0])
}
