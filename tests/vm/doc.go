//go:build linux

// Program vm boots a virtual machine and runs tests in it that need a kernel of
// their own.
//
// # Problem
//
// A worker bounds its commands by control groups of version 2, as root. Many
// machines that build and test, containers above all, give them to nobody, or
// have the controllers on version 1. There these tests are skipped, and a limit
// that was never seen to hold is a guess.
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
// Success is only what the machine itself has said: one that stops, hangs or
// loses its output has failed. A download that is cut leaves nothing that counts
// as done, and the next run begins it anew. Where /dev/kvm is there but cannot
// run a plain kernel, which is told by the machine not saying a word, it is
// started again in emulation. The machine ends with this program.
package main
