package sandbox

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// guard describes what a helper sets for its program besides limits: a Landlock domain and a
// filter of system calls.
type guard struct {
	Landlock     bool
	Change, Read []string // paths that the program may change, and read; others are out of its reach
	Families     []uint64 // socket families that the program may have
	Refuse       []string // system calls that are refused in addition
}

func (g guard) apply() error {
	if g.Landlock {
		if err := g.enclose(); err != nil {
			return err
		}
	}
	return loadFilter(g.policy())
}

// enclose sets the Landlock domain. From version 6 on, signals and abstract sockets end at the
// program too.
func (g guard) enclose() error {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("ask for Landlock: %w", err)
	}
	change := landlock.RWDirs(g.Change...)
	if version >= 2 {
		change = change.WithRefer() // version 1 refuses to move files to other directories
	}
	rules := []landlock.Rule{change}
	for _, path := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		rules = append(rules, landlock.RWFiles(path).IgnoreIfMissing())
	}
	for _, path := range g.Read {
		info, err := os.Stat(path)
		switch {
		case err != nil: // it does not exist, or the program's user may not reach it
		case info.IsDir():
			rules = append(rules, landlock.RODirs(path))
		default:
			rules = append(rules, landlock.ROFiles(path))
		}
	}
	domain := landlock.Config{HandledAccessFS: landlock.V3.HandledAccessFS, Scoped: landlock.V6.Scoped}
	return domain.BestEffort().Restrict(rules...)
}

// systemFiles are the paths that programs without namespaces need: in addition to those of
// Namespace, users and names of machines, and what Python of Debian reads at its start. It
// takes a file that it may not read for an error, and one that is missing for none.
func systemFiles() []string {
	paths, _ := filepath.Glob("/etc/python3*") // the pattern is valid
	for _, name := range etc {
		paths = append(paths, "/etc/"+name)
	}
	return append(paths, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/proc", "/sys/devices/system",
		"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf")
}

// etc lists the files of /etc that programs need to start. None of them describes the
// machine.
var etc = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "protocols",
	"services", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
}

// refused lists calls that no job needs and that expose much of the kernel. The filter
// lists the refused calls instead of the allowed ones, because a list of allowed calls
// breaks programs with each version of libc.
var refused = []string{
	"mount", "umount2", "pivot_root", "chroot", "unshare", "setns",
	"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "quotactl", "swapon", "swapoff", "acct",
	"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd",
	"add_key", "request_key", "keyctl",
	"bpf", "perf_event_open", "userfaultfd", "fanotify_init",
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	"init_module", "finit_module", "delete_module", "kexec_load", "reboot",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "syslog",
	"open_by_handle_at", "name_to_handle_at", "vhangup", "personality",
	"mbind", "set_mempolicy", "migrate_pages", "move_pages",
}

// lasting lists calls that make objects which outlive a command outside of namespaces.
var lasting = []string{"shmget", "msgget", "semget", "mq_open"}

// families lists the socket families that a program without a network may have.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

func (g guard) policy() seccomp.Policy {
	answer := func(errno unix.Errno, names []string, some ...seccomp.NameWithConditions) seccomp.SyscallGroup {
		return seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(errno), Names: names, NamesWithCondtions: some}
	}
	sockets := answer(unix.EAFNOSUPPORT, []string{"socket"})
	if len(g.Families) > 0 {
		var others seccomp.ArgumentConditions
		for _, family := range g.Families {
			others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
		}
		sockets = answer(unix.EAFNOSUPPORT, nil, seccomp.NameWithConditions{Name: "socket", Conditions: others})
	}
	return seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		answer(unix.EPERM, slices.Concat(refused, g.Refuse),
			seccomp.NameWithConditions{Name: "clone", Conditions: seccomp.ArgumentConditions{
				{Argument: 0, Operation: seccomp.BitsSet, Value: newNamespaces},
			}},
			seccomp.NameWithConditions{Name: "ioctl", Conditions: lowerIs(1, unix.TIOCSTI)},
			seccomp.NameWithConditions{Name: "ioctl", Conditions: lowerIs(1, unix.TIOCLINUX)}),
		// The flags of clone3 are behind a pointer, where a filter cannot read them. If
		// clone3 is missing, libc uses clone.
		answer(unix.ENOSYS, []string{"clone3"}),
		sockets,
	}}
}

// lowerIs matches an argument whose lower 32 bits are value: the kernel ignores the upper ones
// of an int, and seccomp.Equal does not.
func lowerIs(argument, value uint32) (all seccomp.ArgumentConditions) {
	for rest := value; rest != 0; rest &= rest - 1 {
		all = append(all, seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: 1 << bits.TrailingZeros32(rest)})
	}
	return append(all, seccomp.Condition{Argument: argument, Operation: seccomp.BitsNotSet, Value: uint64(^value)})
}

// loadFilter installs the filter of a policy for all threads. The library allows the calls of
// programs for another architecture, such as 32-bit ones, whose numbers mean other calls; this
// filter kills them.
func loadFilter(policy seccomp.Policy) error {
	native, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("make the filter of system calls: %w", err)
	}
	program, err := policy.Assemble()
	if err != nil {
		return fmt.Errorf("make the filter of system calls: %w", err)
	}
	const atArch = 4 // in struct seccomp_data
	raw, err := bpf.Assemble(append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: atArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(native.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
	}, program...))
	if err != nil {
		return fmt.Errorf("make the filter of system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // the call takes a struct
	if errno != 0 {
		return fmt.Errorf("set the filter of system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("set the filter of system calls: thread %d has another one", thread)
	}
	return nil
}
