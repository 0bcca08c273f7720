package raftlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the content of a file durable, and its size, but not its times: for a
// segment, whose blocks are allocated, this needs no write of the file system's journal.
func syncData(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			if failed = unix.Fdatasync(int(fd)); failed != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", failed)
}
