package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// namespace is the cell of Namespace: bubblewrap in a confined cell.
type namespace struct {
	*confined
	filter *os.File // what bwrap reads the filter from
	group  *cgroup  // nil: there is none
}

func (b *Box) openNamespace(c *confined) (cell, error) {
	n := &namespace{confined: c}
	if b.groups != nil {
		var err error
		if n.group, err = b.groups.open(c.mark, b.cfg.Limits); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	return n, nil
}

// etc is what programs need of /etc to start, and nothing that tells of the
// machine.
var etc = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "protocols",
	"services", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
}

// theirHome is cwd, HOME and TMPDIR of a command.
const theirHome = "/tmp"

// filterFD is the number of the filter's descriptor in bwrap: the first after
// stderr.
const filterFD = 3

func (n *namespace) prepare(program string, c Command) (*exec.Cmd, error) {
	args := append(n.box.bwrapArgs(), "--seccomp", strconv.Itoa(filterFD), "--", program)
	cmd := exec.Command(n.box.bwrap, append(args, c.Args[1:]...)...)
	cmd.Dir = "/"
	cmd.Env = n.box.cleanEnv(theirHome, append(c.Env, markVariable+"="+n.mark))
	cmd.SysProcAttr = n.attributes()
	if n.group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(n.group.dir.Fd())
	}
	if err := n.openFilter(); err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{n.filter}
	return cmd, nil
}

// openFilter makes a pipe that holds the filter: it is smaller than any pipe.
func (n *namespace) openFilter() error {
	program, err := filter()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for the filter of system calls: %w", err)
	}
	defer w.Close()
	n.filter = r
	if _, err := w.Write(program); err != nil {
		return fmt.Errorf("hand over the filter of system calls: %w", err)
	}
	return nil
}

// bwrapArgs describe what a command sees.
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
		path := filepath.Join("/etc", name)
		args = append(args, "--ro-bind-try", path, path)
	}
	args = append(args,
		"--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", size, "--tmpfs", theirHome)
	for _, path := range b.cfg.ReadOnly {
		args = append(args, "--ro-bind", path, path)
	}
	return append(args, "--remount-ro", "/", "--chdir", theirHome)
}

func (n *namespace) start(cmd *exec.Cmd) error {
	defer n.filter.Close()
	return n.confined.start(cmd)
}

// terminate spares bwrap's own two processes: their end is the end of all.
func (n *namespace) terminate() {
	n.signal(unix.SIGTERM, func(p proc) bool { return p.pid == n.leader || p.ppid == n.leader })
}

func (n *namespace) kill() {
	if n.group != nil {
		n.group.kill()
	}
	n.confined.kill()
}

// sweep waits for the kernel to end the namespace's processes, and helps.
func (n *namespace) sweep() bool {
	n.running.remove(n.leader)
	if n.group != nil {
		n.group.kill()
	}
	n.confined.kill()
	return false
}

// overDisk: the size is that of the file system.
func (n *namespace) overDisk() bool { return false }

func (n *namespace) explain(cmd *exec.Cmd) error {
	if n.group != nil && n.group.outOfMemory() {
		return errLimit(ErrMemory, n.box.cfg.Limits.Memory)
	}
	return n.confined.explain(cmd)
}

func (n *namespace) close() error {
	var err error
	if n.filter != nil {
		n.filter.Close()
	}
	if n.group != nil {
		err = n.group.close()
	}
	return errors.Join(err, n.confined.close())
}
