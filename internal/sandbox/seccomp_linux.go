package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. The offsets of arguments point to their lower halves,
// as both architectures below are little-endian.
const (
	atNumber = 0
	atArch   = 4
	atArg0   = 16
	atArg1   = 24
)

// The answers of the filter; x/sys does not name them.
const (
	answerAllow = 0x7fff0000
	answerErrno = 0x00050000
	answerKill  = 0x80000000
)

// arches lists the architectures of the filter: a number means different calls on
// different architectures.
var arches = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// refused lists calls that no job needs and that expose much of the kernel. The filter
// lists the refused calls instead of the allowed ones, because a list of allowed calls
// breaks programs with each version of libc.
var refused = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_QUOTACTL, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_VHANGUP, unix.SYS_PERSONALITY,
	unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

// lasting lists calls that make objects which outlive a command outside of namespaces.
var lasting = []uint32{unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN}

// families lists the socket families that a program without a network may have.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// x32Bit marks the numbers of a second table of calls on amd64.
const x32Bit = 0x40000000

func answer(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: answerErrno | uint32(errno)}
}

// filter returns the filter of system calls: an array of struct sock_filter. It refuses the
// calls in more, and all sockets outside of families.
func filter(more, families []uint32) ([]byte, error) {
	arch, ok := arches[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("there is no filter of system calls for %s", runtime.GOARCH)
	}
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: atArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: answerKill},
		bpf.LoadAbsolute{Off: atNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		bpf.RetConstant{Val: answerKill},
	}
	for _, number := range slices.Concat(refused, more) {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: 1}, answer(unix.EPERM))
	}
	// The flags of clone3 are behind a pointer, where a filter cannot read them. If
	// clone3 is missing, libc uses clone.
	prog = append(prog,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		answer(unix.ENOSYS),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: atArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: newNamespaces, SkipTrue: 1},
		answer(unix.EPERM),
		bpf.RetConstant{Val: answerAllow},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_IOCTL, SkipTrue: 5},
		bpf.LoadAbsolute{Off: atArg1, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCLINUX, SkipTrue: 1},
		bpf.RetConstant{Val: answerAllow},
		answer(unix.EPERM),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKET, SkipTrue: 1},
		bpf.RetConstant{Val: answerAllow},
		bpf.LoadAbsolute{Off: atArg0, Size: 4},
	)
	for _, family := range families {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: family, SkipTrue: 1}, bpf.RetConstant{Val: answerAllow})
	}
	prog = append(prog, answer(unix.EAFNOSUPPORT))
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = binary.Write(&buf, binary.NativeEndian, raw)
	return buf.Bytes(), err
}
