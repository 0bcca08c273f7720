package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is the cell of Namespace: a confined cell that runs bubblewrap.
type namespace struct {
	*confined
	files []*os.File // filterFD and argsFD
	left  bool       // whether the command has left processes behind
}

// theirHome is the cwd, HOME and TMPDIR of a command.
const theirHome = "/tmp"

// The numbers of bwrap's extra descriptors: the first ones after stderr.
const (
	filterFD = 3
	argsFD   = 4
)

// prepare passes the command's environment among bwrap's arguments in a file. In bwrap's
// own environment, variables such as LD_PRELOAD would act on bwrap outside of the
// namespaces; on its command line, every user could read them.
func (n *namespace) prepare(program string, c Command) (*exec.Cmd, error) {
	if err := n.openFiles(append(c.Env, markVariable+"="+n.mark)); err != nil {
		return nil, err
	}
	args := []string{"--args", strconv.Itoa(argsFD), "--", program}
	cmd := exec.Command(n.box.bwrap, append(args, c.Args[1:]...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + standardPath, markVariable + "=" + n.mark}
	cmd.SysProcAttr = n.attributes()
	cmd.ExtraFiles = n.files
	return cmd, nil
}

// openFiles makes the files that bwrap reads: the filter of system calls and the
// arguments.
func (n *namespace) openFiles(env []string) error {
	program, err := filter(nil, families)
	if err != nil {
		return err
	}
	args := append(n.box.bwrapArgs(), "--seccomp", strconv.Itoa(filterFD), "--clearenv")
	for _, v := range n.box.cleanEnv(theirHome, env) {
		name, value, _ := strings.Cut(v, "=")
		args = append(args, "--setenv", name, value)
	}
	for _, content := range []string{string(program), strings.Join(args, "\x00") + "\x00"} {
		fd, err := unix.MemfdCreate("osqueue", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("make a file for bwrap: %w", err)
		}
		file := os.NewFile(uintptr(fd), "bwrap's")
		n.files = append(n.files, file)
		_, err = file.WriteString(content)
		if _, seek := file.Seek(0, io.SeekStart); err != nil || seek != nil {
			return fmt.Errorf("write a file for bwrap: %w", errors.Join(err, seek))
		}
	}
	return nil
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

func (n *namespace) start(cmd *exec.Cmd) error {
	defer n.closeFiles()
	return n.confined.start(cmd)
}

func (n *namespace) wait(cmd *exec.Cmd) error {
	n.left = n.box.launcher.awaitEnd(n.leader)
	return cmd.Wait()
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

func (n *namespace) closeFiles() {
	for _, f := range n.files {
		f.Close()
	}
}

func (n *namespace) close() error {
	n.closeFiles()
	return n.confined.close()
}
