package sandbox

import (
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
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
	check(t, cmd.Start())
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
	for _, level := range []Level{Process, Namespace} {
		t.Run(string(level), func(t *testing.T) {
			b := bench(t, level, small)
			open, err := b.openConfined(t.Context())
			check(t, err)
			cmd, err := open.prepare("/usr/bin/no-program", sh("sleep 600"))
			check(t, err)
			done := make(chan error)
			go func() {
				runtime.LockOSThread()
				err := dropFromThread(unix.CAP_KILL, unix.CAP_SYS_RESOURCE)
				if err == nil {
					err = open.start(t.Context(), cmd)
				}
				done <- err
			}()
			want := map[Level]error{Process: fs.ErrNotExist, Namespace: unix.EPERM} // bwrap cannot be stopped
			if err := <-done; !errors.Is(err, want[level]) || cmd.ProcessState == nil {
				t.Errorf("got %v, state %v", err, cmd.ProcessState)
			}
			if err := open.close(); err != nil {
				t.Error(err)
			}
		})
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
