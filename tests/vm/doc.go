//go:build linux

// Program vm boots a virtual machine and runs tests in it that need a kernel of
// their own.
//
// # Problem
//
// A worker bounds its commands by control groups (v2), as root. Many machines that build and
// test, above all containers, do not allow this, or have the controllers on v1. There these
// tests are skipped, and nothing shows that a limit holds.
//
// # How
//
//	apt ─▶ debian.go ─▶ kernel, root.cpio      kept in bin/vm
//	go  ─▶ build.go  ─▶ init, sandbox.test ──▶ archive.go ─▶ tests.cpio
//	                                 qemu.go ─▶ boots both, prints what they print
//
// The kernel is Debian's, unchanged, and so are the programs that the tests
// call: packages with all that they depend on, unpacked into an archive which
// the kernel takes for its file system. Nothing is installed here but qemu, and
// there is no disk, no network and no driver. The first process
// (tests/vm/init) mounts what a system has, runs what tests/vm/plan lists, each
// for a bounded time, says how it ended, and switches the machine off.
//
// # Failure stance
//
// Only the machine itself reports success: a machine that stops, hangs or loses its output has
// failed. A download that is cut off leaves no file that counts as complete, and the next run
// starts it again. If /dev/kvm exists but cannot run a plain kernel, which shows by a machine
// that hangs or ends without any output, the machine is started again in emulation. The machine ends with this
// program.
package main
