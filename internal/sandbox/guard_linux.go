package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guard restricts a program of the level Process before its first instruction.
type guard struct {
	filter   []byte // of system calls: an array of struct sock_filter; empty: none
	landlock bool   // whether descriptor rulesetFD of the program is a Landlock ruleset
}

const (
	filterInstruction = 8 // bytes of struct sock_filter
	rulesetFD         = 3 // the first descriptor after stderr
)

// landlockABI returns the version of Landlock in the kernel, or why there is none.
func landlockABI() (int, error) {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// The rights of files that a version of Landlock knows, and the scopes of version 6.
const (
	readFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	runFiles  = readFiles | unix.LANDLOCK_ACCESS_FS_EXECUTE
	useDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	ofFiles   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	firstFiles = 1<<13 - 1 // version 1

	scopeAbstractSockets = 1 << 0
	scopeSignals         = 1 << 1
)

// handledBy returns the rights that a ruleset of a version can refuse.
func handledBy(abi int) uint64 {
	rights := uint64(firstFiles)
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return rights
}

// rulesetAttr is struct landlock_ruleset_attr up to version 6.
type rulesetAttr struct{ fs, net, scoped uint64 }

// openRuleset returns a ruleset: dir may be changed, the system's files and those of
// readOnly may be read, nothing else. From version 6 on, signals and abstract sockets end
// at the command. The program of the command may be run wherever it is.
func openRuleset(abi int, dir, program string, readOnly []string) (*os.File, error) {
	attr, size := rulesetAttr{fs: handledBy(abi)}, uintptr(8)
	if abi >= 6 {
		attr.scoped, size = scopeAbstractSockets|scopeSignals, unsafe.Sizeof(attr)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0) //nolint:gosec // the call takes a struct
	if errno != 0 {
		return nil, fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	set := os.NewFile(fd, "landlock")
	add := func(rights uint64, paths ...string) error {
		for _, path := range paths {
			if err := addRule(set, path, rights&attr.fs); err != nil {
				return fmt.Errorf("let commands reach %s: %w", path, err)
			}
		}
		return nil
	}
	err := errors.Join(
		add(attr.fs, dir),
		add(runFiles, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"),
		add(readFiles, "/proc", "/sys/devices/system"), add(readFiles, readableEtc()...),
		add(useDevice, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),
		add(runFiles, program), add(runFiles, readOnly...),
	)
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return set, nil
}

// readableEtc returns the paths of /etc that programs without namespaces need to start:
// in addition to those of Namespace, users and names of machines, and what Python of Debian reads at
// its start: it takes a file that it may not read for an error, and one that is missing for none.
func readableEtc() []string {
	paths, _ := filepath.Glob("/etc/python3*") // the pattern is valid
	paths = append(paths, "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf")
	for _, name := range etc {
		paths = append(paths, "/etc/"+name)
	}
	return paths
}

// addRule adds a path to a ruleset. A path that does not exist is left out.
func addRule(set *os.File, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	const pathBeneath = 1                                                                                                       // LANDLOCK_RULE_PATH_BENEATH
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set.Fd(), pathBeneath, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0) //nolint:gosec // the call takes a struct
	if errno != 0 {
		return errno
	}
	return nil
}

// etc lists the files of /etc that programs need to start. None of them describes the
// machine.
var etc = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "protocols",
	"services", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
}
