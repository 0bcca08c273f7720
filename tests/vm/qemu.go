//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"osqueue/tests/vm/plan"
)

// machine describes the machine to boot.
type machine struct {
	arch     string // as Go and Debian call it
	kernel   string
	archives []string
	out      io.Writer     // gets what it prints
	kvm      string        // the device
	patience time.Duration // how long a machine under KVM may say nothing
}

// emulators are the programs of qemu, by architecture.
var emulators = map[string]struct{ program, machine, console string }{
	"amd64": {"qemu-system-x86_64", "pc", "ttyS0"},
	"arm64": {"qemu-system-aarch64", "virt", "ttyAMA0"},
}

// bootTime is the maximum boot time; such a machine boots in about two seconds.
const bootTime = 15 * time.Second

var errSilent = errors.New("the virtual machine wrote nothing to its console")

// boot runs the machine to its end. accel is kvm, tcg (emulation), or auto, which selects the
// first that works.
func (m machine) boot(ctx context.Context, accel string) (status int, err error) {
	if accel != "auto" {
		return m.run(ctx, accel, 0)
	}
	if m.arch != runtime.GOARCH {
		return m.run(ctx, "tcg", 0)
	}
	if kvm, err := os.OpenFile(m.kvm, os.O_RDWR, 0); err == nil {
		kvm.Close()
		status, err = m.run(ctx, "kvm", m.patience)
		if !errors.Is(err, errSilent) {
			return status, err
		}
		fmt.Fprintf(m.out, "vm: %s runs no plain kernel here (%v); now in emulation\n", m.kvm, err)
	}
	return m.run(ctx, "tcg", 0)
}

// run boots once. A patience above 0 bounds the time to the first output.
func (m machine) run(ctx context.Context, accel string, patience time.Duration) (status int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	initrd, forget, err := join(m.archives)
	if err != nil {
		return 0, err
	}
	defer forget()
	// The kernel kills the machine when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, emulators[m.arch].program, arguments(m.arch, accel, m.kernel, initrd)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the machine (Debian: apt-get install qemu-system-x86 qemu-system-arm): %w", err)
	}
	spoke := false
	booted := func() { spoke = true }
	if patience > 0 {
		timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w for %v", errSilent, patience)) })
		defer timer.Stop()
		booted = func() {
			spoke = true
			timer.Stop()
		}
	}
	status, ended := m.follow(out, booted)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil && !spoke && !ended: // nested KVM may refuse a register, and qemu ends
		return 0, fmt.Errorf("%w: %w; %s", errSilent, err, told.String())
	case err != nil:
		return 0, fmt.Errorf("the machine: %w; %s", err, told.String())
	case !ended:
		return 0, errors.New("the machine stopped before it had said how the tests ended")
	}
	return status, nil
}

// follow copies the machine's output until the machine ends.
func (m machine) follow(out io.Reader, booted func()) (status int, ended bool) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		fmt.Fprintln(m.out, line)
		if strings.HasSuffix(line, plan.Booted) {
			booted()
		}
		if n, ok := plan.ParseExit(line); ok {
			status, ended = n, true
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long; the machine must not wait for us
	return status, ended
}

// arguments returns the arguments of qemu. On a busy machine an emulated timer is late, which
// without no_timer_check is a panic of the kernel at its start.
func arguments(arch, accel, kernel, initrd string) []string {
	e := emulators[arch]
	cpu := "max"
	if accel == "kvm" {
		cpu = "host"
	}
	return []string{
		"-machine", e.machine, "-accel", accel, "-cpu", cpu, "-smp", "2", "-m", "2048", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", kernel, "-initrd", initrd, "-append", "console=" + e.console + " panic=-1 quiet no_timer_check",
	}
}

// join concatenates archives, which the kernel accepts.
func join(archives []string) (file string, forget func(), err error) {
	all, err := os.CreateTemp("", "osqueue-vm-*.cpio")
	if err != nil {
		return "", nil, err
	}
	forget = func() { os.Remove(all.Name()) }
	for _, name := range archives {
		if err = appendFile(all, name); err != nil {
			break
		}
	}
	if err = errors.Join(err, all.Close()); err != nil {
		forget()
		return "", nil, fmt.Errorf("join the archives: %w", err)
	}
	return all.Name(), forget, nil
}

func appendFile(dst io.Writer, name string) error {
	src, err := os.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	_, err = io.Copy(dst, src)
	return err
}
