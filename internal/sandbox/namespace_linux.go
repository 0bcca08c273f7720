package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// namespace is the cell of Namespace: a confined cell whose helper runs inside of bubblewrap.
//
// bwrap runs two processes. The inner one is the first process of the
// namespace. It lives as long as any other process there, and the kernel protects it
// from all of them. The outer one ends when the command ends, and then the kernel kills
// the whole namespace. So processes that the command has left can be seen only before
// the outer process is gone. The worker therefore stops it while the command runs. It is
// outside of the namespace, where no command can resume it. If an operator resumes it, the kernel
// still ends the processes that the command has left, but the worker does not detect them.
//
// Without --die-with-parent, bwrap would keep the namespace after the command's end, but
// also after the end of a killed worker.
type namespace struct {
	*confined
	outer            *exec.Cmd
	info             [2]*os.File // the pipe for the pid of the inner process
	inner            int         // the pid of the inner process; 0: it is not known
	innerFD, program int         // pidfds; 0: none
	left             bool        // whether the command has left processes behind
}

// theirHome is the cwd, HOME and TMPDIR of a command.
const theirHome = "/tmp"

// prepare makes bwrap execute this program by a descriptor, because the namespace does not show
// its file. bwrap gets neither arguments nor variables of the command: on bwrap's command line
// every user could read them, and variables such as LD_PRELOAD would act on bwrap outside of
// the namespaces.
func (n *namespace) prepare(program string, c Command) (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	n.info = [2]*os.File{r, w}
	call := append([]string{n.box.bwrap, "--info-fd", strconv.Itoa(infoFD)}, n.box.bwrapArgs()...)
	n.outer = n.helper(program, c, theirHome, append(call, "--", fmt.Sprintf("/proc/self/fd/%d", programFD), helperCommand)...)
	n.outer.Dir = "/"
	n.outer.ExtraFiles = []*os.File{n.box.self, w} // after the socket
	return n.outer, nil
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

// begun reads the pid of the inner process, which bwrap writes before it lets that process run.
func (n *namespace) begun() error {
	n.info[1].Close()
	defer n.info[0].Close()
	_ = n.info[0].SetReadDeadline(time.Now().Add(startTime))
	var info struct {
		PID int `json:"child-pid"`
	}
	if json.NewDecoder(n.info[0]).Decode(&info) != nil {
		return nil // bwrap has failed, and says why
	}
	fd, err := unix.PidfdOpen(info.PID, 0)
	if err != nil {
		return fmt.Errorf("find the first process of the namespace: %w", err)
	}
	n.inner, n.innerFD = info.PID, fd
	return nil
}

// hold stops the outer process. It is called while the helper waits, so that no other process can be
// below the inner one.
func (n *namespace) hold() error {
	all, err := processes()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(p proc) bool { return n.inner != 0 && p.ppid == n.inner })
	if i < 0 {
		return errNotStarted
	}
	if n.program, err = unix.PidfdOpen(all[i].pid, 0); err != nil {
		return fmt.Errorf("find the helper: %w", err)
	}
	n.awaitClosed()
	if err := n.outer.Process.Signal(unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop bwrap, for which root needs CAP_KILL: %w", err)
	}
	return nil
}

// awaitClosed waits until the outer process has closed its copy of the helper's socket: stopped
// before, it would keep the worker from seeing that the program runs.
func (n *namespace) awaitClosed() {
	for range 1000 {
		file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.leader, orderFD))
		if err != nil || !strings.HasPrefix(file, "socket:") { // or the worker may not look
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// wait resumes the outer process when the command has ended and either no other process of the
// namespace runs, or linger is over. If the inner process is ending, no other process is left, but
// the kernel may take time to free files in memory. The number of the inner process is not used
// again before its parent, the outer process, continues.
func (n *namespace) wait(outer *exec.Cmd) error {
	if n.program > 0 {
		awaitPidfd(n.program, -1)
		n.left = !awaitPidfd(n.innerFD, linger) && !ending(n.inner)
	}
	_ = outer.Process.Signal(unix.SIGCONT) // fails only if it was killed
	return n.confined.wait(outer)
}

// awaitPidfd reports whether a process ends within d; a negative d is without end.
func awaitPidfd(fd int, d time.Duration) bool {
	deadline := time.Now().Add(d)
	for {
		rest := -1
		if d >= 0 {
			rest = int(max(0, time.Until(deadline)).Milliseconds())
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, rest)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// terminate signals all processes except bwrap's own two, because their end would kill
// the command at once.
func (n *namespace) terminate() {
	all, err := processes()
	if err != nil || n.inner == 0 {
		return
	}
	in := map[int]bool{n.inner: true}
	addDescendants(all, in)
	for _, p := range all {
		if in[p.pid] && p.pid != n.inner && !p.zombie {
			send(p, unix.SIGTERM)
		}
	}
}

// kill ends bwrap's processes, and thereby all of the namespace.
func (n *namespace) kill() {
	if n.group != nil {
		n.group.kill()
	}
	if n.innerFD > 0 {
		_ = unix.PidfdSendSignal(n.innerFD, unix.SIGKILL, nil, 0) // fails only if it has ended
	}
	_ = n.outer.Process.Kill() // fails only if it has ended
}

// freeTime bounds the time in which the kernel ends a namespace.
const freeTime = 10 * time.Second

func (n *namespace) sweep() bool {
	n.kill()
	return n.left
}

// overDisk returns nil: the size of the file system bounds the command.
func (n *namespace) overDisk(<-chan struct{}) error { return nil }

func (n *namespace) close() error {
	if n.innerFD > 0 && awaitPidfd(n.innerFD, freeTime) { // a child of the worker now, unless bwrap has waited for it
		_ = unix.Waitid(unix.P_PIDFD, n.innerFD, nil, unix.WEXITED|unix.WNOHANG, nil)
	}
	for _, f := range n.info {
		if f != nil {
			f.Close()
		}
	}
	for _, fd := range []int{n.innerFD, n.program} {
		if fd > 0 {
			_ = unix.Close(fd) // nothing was written
		}
	}
	return n.confined.close()
}
