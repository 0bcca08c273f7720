//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	accel := flag.String("accel", "auto", "how the machine runs: kvm, tcg (emulation), or auto, the first that works")
	dir := flag.String("dir", "bin/vm", "where downloads are kept")
	limit := flag.Duration("limit", 10*time.Minute, "how long the tests may take")
	only := flag.String("run", "", "pattern of the tests to run (default: all)")
	arch := flag.String("arch", runtime.GOARCH, "processor of the machine: amd64 or arm64")
	flag.Parse()
	status, err := run(*arch, *accel, *dir, *limit, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		status = 1
	}
	os.Exit(status)
}

func run(arch, accel, dir string, limit time.Duration, only string) (status int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	emulator, ok := emulators[arch]
	if !ok {
		return 0, fmt.Errorf("there is no virtual machine for %s", arch)
	}
	for _, tool := range []string{emulator.program, "apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("%w; install it (Debian: apt-get install qemu-system-x86 qemu-system-arm)", err)
		}
	}
	dir, err = filepath.Abs(dir) // apt takes others for its own
	if err != nil {
		return 0, err
	}
	began := time.Now()
	d, err := ensureDebian(ctx, dir, arch)
	if err != nil {
		return 0, fmt.Errorf("fetch a kernel and programs: %w", err)
	}
	tests, err := buildTests(ctx, dir, arch, thePlan(limit, only))
	if err != nil {
		return 0, fmt.Errorf("build the tests: %w", err)
	}
	fmt.Printf("vm: made in %v\n", time.Since(began).Round(time.Second/10))
	// The machine itself bounds the time of the tests; this bound is for a machine that hangs.
	ctx, cancel := context.WithTimeout(ctx, limit+2*time.Minute)
	defer cancel()
	m := machine{arch: arch, kernel: d.kernel, archives: []string{d.root, tests}, out: os.Stdout, kvm: "/dev/kvm", patience: bootTime}
	return m.boot(ctx, accel)
}
