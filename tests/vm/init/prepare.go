//go:build linux

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount has the arguments of one mount(2).
type mount struct {
	kind, dir, options string
	flags              uintptr
}

const private = unix.MS_NOSUID | unix.MS_NODEV

var mounts = []mount{
	{"proc", "/proc", "", private | unix.MS_NOEXEC},
	{"sysfs", "/sys", "", private | unix.MS_NOEXEC},
	{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID},
	{"devpts", "/dev/pts", "mode=0620,ptmxmode=0666", unix.MS_NOSUID | unix.MS_NOEXEC},
	{"tmpfs", "/dev/shm", "mode=1777", private},
	{"tmpfs", "/tmp", "mode=1777", private},
	{"tmpfs", "/var/tmp", "mode=1777", private},
	{"tmpfs", "/run", "mode=0755", private},
	{"cgroup2", "/sys/fs/cgroup", "", private | unix.MS_NOEXEC},
}

// prepare sets up the system on the bare kernel.
func prepare() error {
	if err := leaveFirstRoot(); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.dir, err)
		}
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return loopback()
}

// leaveFirstRoot makes the root a mount on top of the kernel's first file system: bubblewrap
// calls pivot_root, which fails in that first file system itself.
func leaveFirstRoot() error {
	const dir = "/mnt"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return os.Chdir("/")
}

// loopback switches lo on; the kernel assigns its address.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("switch the loopback on: %w", err)
	}
	return nil
}
