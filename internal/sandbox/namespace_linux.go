package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// namespace is the cell of Namespace: a confined cell whose helper runs inside of bubblewrap.
type namespace struct {
	*confined
	remains
	left bool // whether the command has left processes behind
}

// theirHome is the cwd, HOME and TMPDIR of a command.
const theirHome = "/tmp"

// prepare makes bwrap execute this program by a descriptor, because the namespace does not show
// its file. bwrap gets neither arguments nor variables of the command: on bwrap's command line
// every user could read them, and variables such as LD_PRELOAD would act on bwrap outside of
// the namespaces.
func (n *namespace) prepare(program string, c Command) (*exec.Cmd, error) {
	call := append(append([]string{n.box.bwrap}, n.box.bwrapArgs()...), "--", fmt.Sprintf("/proc/self/fd/%d", programFD), helperCommand)
	cmd := n.helper(program, c, theirHome, call...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{n.box.self} // after the socket
	return cmd, nil
}

// bwrapArgs returns the arguments that describe the command's view of the machine.
func (b *Box) bwrapArgs() []string {
	size := strconv.FormatInt(b.cfg.Limits.Disk, 10)
	args := []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--uid", "65534", "--gid", "65534", "--hostname", "osqueue",
		"--ro-bind", "/usr", "/usr",
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	for _, name := range etc {
		path := "/etc/" + name
		args = append(args, "--ro-bind-try", path, path)
	}
	if b.cfg.Net == NetHost {
		args = append(args, "--share-net")
		for _, path := range []string{"/etc/resolv.conf", "/etc/hosts"} {
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	args = append(args,
		"--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", size, "--tmpfs", theirHome)
	for _, path := range b.cfg.ReadOnly {
		args = append(args, "--ro-bind", path, path)
	}
	return append(args, "--remount-ro", "/", "--chdir", theirHome)
}

// terminate signals all processes except bwrap's own two, because their end would kill
// the command at once.
func (n *namespace) terminate() {
	n.signal(unix.SIGTERM, func(p proc) bool { return p.pid == n.leader || p.ppid == n.leader })
}

// sweep waits for the kernel to end the namespace's processes, and helps.
func (n *namespace) sweep() bool {
	n.kill()
	return n.left
}

// overDisk returns nil: the size of the file system bounds the command.
func (n *namespace) overDisk(<-chan struct{}) error { return nil }

func (n *namespace) close() error {
	for _, fd := range []int{n.innerFD, n.program} {
		if fd > 0 {
			_ = unix.Close(fd) // nothing was written
		}
	}
	return n.confined.close()
}
