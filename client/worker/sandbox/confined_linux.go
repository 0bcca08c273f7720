package sandbox

import (
	"crypto/rand"
	"errors"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confined is the cell of Process; that of Namespace is built on it.
type confined struct {
	box  *Box
	loan *uidLoan // nil: no user id of its own
	dir  string   // "": it has none on the machine
	crowd
}

func (b *Box) openConfined() (cell, error) {
	c := &confined{box: b, crowd: crowd{mark: rand.Text(), running: b.running}}
	if b.uids != nil {
		loan, err := b.uids.take()
		if err != nil {
			return nil, err
		}
		c.loan, c.uid = loan, loan.uid
	}
	if b.cfg.Level == Namespace {
		return b.openNamespace(c)
	}
	var err error
	if c.dir, err = newDir(b.cfg.Dir, c.uid); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *confined) prepare(program string, cmd Command) (*exec.Cmd, error) {
	out := exec.Command(program, cmd.Args[1:]...)
	out.Args[0] = cmd.Args[0]
	out.Dir = c.dir
	out.Env = c.box.cleanEnv(c.dir, append(cmd.Env, markVariable+"="+c.mark))
	out.SysProcAttr = c.attributes()
	return out, nil
}

func (c *confined) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.loan != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}
	}
	return attr
}

func (c *confined) start(cmd *exec.Cmd) error {
	return c.box.launcher.start(cmd, c.limits(), func(pid int) {
		c.leader = pid
		c.running.add(pid, c.mark)
	})
}

func (c *confined) limits() []limit {
	l := c.box.cfg.Limits
	cpu := uint64(l.CPU.Round(time.Second) / time.Second)
	same := func(resource int, n int64) limit { return limit{resource, uint64(n), uint64(n)} }
	return []limit{
		{unix.RLIMIT_CPU, cpu, cpu + 1}, // SIGXCPU first, then SIGKILL
		same(unix.RLIMIT_AS, l.Memory),
		same(unix.RLIMIT_NOFILE, l.Files),
		same(unix.RLIMIT_NPROC, l.Processes+c.already()),
		same(unix.RLIMIT_FSIZE, l.FileSize),
		same(unix.RLIMIT_CORE, 0),
	}
}

// already is how many threads the user has whose number is limited.
func (c *confined) already() (n int64) {
	if c.loan != nil {
		return 0
	}
	all, err := processes()
	if err != nil {
		return math.MaxInt32
	}
	for _, p := range all {
		if p.uid != os.Getuid() {
			continue
		}
		if tasks, err := os.ReadDir(taskDir(p.pid)); err == nil {
			n += int64(len(tasks))
		}
	}
	return n
}

func (c *confined) terminate() { c.signal(unix.SIGTERM, nil) }

func (c *confined) sweep() bool {
	left := c.settle()
	c.crowd.kill()
	return left
}

func (c *confined) overDisk() bool { return overFull(c.dir, c.box.cfg.Limits.Disk) }

// explain knows a limit by the signal that the system sends, also when a shell
// tells of it by its exit status.
func (c *confined) explain(cmd *exec.Cmd) error {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return nil
	}
	sig := status.Signal()
	if status.Exited() && status.ExitStatus() > 128 {
		sig = syscall.Signal(status.ExitStatus() - 128)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	limits := c.box.cfg.Limits
	switch {
	case sig == syscall.SIGXCPU, sig == syscall.SIGKILL && used >= limits.CPU:
		return errLimit(ErrCPU, limits.CPU)
	case sig == syscall.SIGXFSZ:
		return errLimit(ErrFileSize, limits.FileSize)
	}
	return nil
}

func (c *confined) close() error {
	var errs []error
	if c.leader != 0 {
		c.running.remove(c.leader) // only now: until here its orphans are not anybody's
	}
	if c.dir != "" {
		errs = append(errs, removeDir(c.dir))
	}
	if c.loan != nil {
		errs = append(errs, c.loan.end())
	}
	return errors.Join(errs...)
}
