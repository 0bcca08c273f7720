package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confined is the cell of the level Process. The cell of Namespace is built on it.
type confined struct {
	box *Box
	dir string // "": the command has no directory on the machine
	family
	group *cgroup // nil: the command has no control group
	guard *guard  // nil: the command is not restricted

	ruleset *os.File // of the guard; nil: none
}

// ourProcesses is the number of bwrap's processes, which the command's limit does not
// count.
const ourProcesses = 2

func (b *Box) openConfined(ctx context.Context) (cell, error) {
	c := &confined{box: b, family: family{mark: rand.Text(), running: b.running}}
	if b.uids != nil {
		loan, err := b.uids.take(ctx)
		if err != nil {
			return nil, err
		}
		c.loan = loan
	}
	if err := c.openGroup(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if b.cfg.Level == Namespace {
		return &namespace{confined: c}, nil
	}
	var err error
	if c.dir, err = b.place.newDir(c.loan); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *confined) openGroup() (err error) {
	if c.box.groups == nil {
		return nil
	}
	var ours int64
	if c.box.cfg.Level == Namespace {
		ours = ourProcesses
	}
	c.group, err = c.box.groups.open(c.mark, c.box.cfg.Limits, ours)
	return err
}

func (c *confined) prepare(program string, cmd Command) (*exec.Cmd, error) {
	out := exec.Command(program, cmd.Args[1:]...)
	out.Args[0] = cmd.Args[0]
	out.Dir = c.dir
	out.Env = c.box.cleanEnv(c.dir, append(cmd.Env, markVariable+"="+c.mark))
	out.SysProcAttr = c.attributes()
	if c.box.cfg.Level == Process && canRestrict {
		return out, c.restrictTo(program, out)
	}
	return out, nil
}

// restrictTo prepares the guard of a command. The ruleset is a descriptor of the command
// until it is in force.
func (c *confined) restrictTo(program string, out *exec.Cmd) error {
	c.guard = &guard{filter: c.box.guard}
	if c.box.abi == 0 {
		return nil
	}
	set, err := openRuleset(c.box.abi, c.dir, program, c.box.cfg.ReadOnly)
	if err != nil {
		return err
	}
	c.guard.landlock, c.ruleset = true, set
	out.ExtraFiles = []*os.File{set}
	return nil
}

func (c *confined) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.loan != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(c.loan.uid), Gid: uint32(c.loan.uid)}
	}
	if c.group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.group.dir.Fd())
	}
	return attr
}

func (c *confined) start(cmd *exec.Cmd) error {
	c.running.starts.RLock()
	defer c.running.starts.RUnlock()
	return c.box.launcher.start(launch{
		cmd:    cmd,
		limits: c.limits(),
		before: c.begin,
		hold:   c.box.cfg.Level == Namespace,
		guard:  c.guard,
	})
}

var errHidden = errors.New("/proc does not show the worker what its commands run (mount option hidepid, ProtectProc= of systemd): " +
	"that takes the capability CAP_SYS_PTRACE")

// begin records the command's first process, before its first instruction. It fails if
// /proc hides the process: the worker could then neither reap the command's zombies nor
// free their user id.
func (c *confined) begin(pid int) error {
	if _, ok := readProc(pid); !ok {
		return errHidden
	}
	c.leader = pid
	c.running.add(pid, c.mark)
	return nil
}

func (c *confined) limits() []limit {
	l := c.box.cfg.Limits
	cpu := uint64(l.CPU.Round(time.Second) / time.Second)
	same := func(resource int, n int64) limit { return limit{resource, uint64(n), uint64(n)} }
	return []limit{
		{unix.RLIMIT_CPU, cpu, cpu + 1}, // SIGXCPU first, then SIGKILL
		same(unix.RLIMIT_AS, l.Memory),
		same(unix.RLIMIT_NOFILE, l.Files),
		same(unix.RLIMIT_NPROC, c.processes()),
		same(unix.RLIMIT_FSIZE, l.FileSize),
		same(unix.RLIMIT_CORE, 0),
	}
}

// processes returns the RLIMIT_NPROC of the command's user. A control group that counts
// must refuse a fork first, because only the group reports that its limit was reached.
// The kernel counts a new process for the user before it asks the group, so the user's
// limit leaves space for one fork in each process.
func (c *confined) processes() int64 {
	n := c.box.cfg.Limits.Processes
	if c.group != nil && c.group.counts {
		n = 2 * (n + ourProcesses)
	}
	return n + c.already()
}

// already returns the number of threads that count against the user's limit before the
// command starts: 0 for a user id of the command's own.
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

func (c *confined) wait(cmd *exec.Cmd) error { return cmd.Wait() }

func (c *confined) terminate() { c.signal(unix.SIGTERM, nil) }

// kill kills the control group first, because that ends all its processes at once.
func (c *confined) kill() {
	if c.group != nil {
		c.group.kill()
	}
	c.family.kill()
}

func (c *confined) sweep() bool {
	left := c.settle()
	c.kill()
	return left
}

func (c *confined) overDisk(done <-chan struct{}) error {
	return overFull(c.dir, c.box.cfg.Limits.Disk, done)
}

// explain returns the limit whose signal ended the program. A shell reports the signal
// as an exit status above 128.
func (c *confined) explain(cmd *exec.Cmd) error {
	if c.group != nil {
		if err := c.group.exceeded(c.box.cfg.Limits); err != nil {
			return err
		}
	}
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
		return errBytes(ErrFileSize, limits.FileSize)
	}
	return nil
}

func (c *confined) close() error {
	var errs []error
	if c.ruleset != nil {
		errs = append(errs, c.ruleset.Close())
	}
	if c.group != nil {
		errs = append(errs, c.group.close())
	}
	if c.leader != 0 {
		c.running.remove(c.leader) // not earlier: until here no other command may adopt its orphans
	}
	if c.dir != "" {
		errs = append(errs, removeDir(c.dir))
	}
	if c.loan != nil {
		errs = append(errs, c.loan.end())
	}
	return errors.Join(errs...)
}
