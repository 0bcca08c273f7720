package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confined is the cell of the level Process. The cell of Namespace is built on it.
type confined struct {
	box *Box
	dir string   // "": the command has no directory on the machine
	use *os.File // the lock of dir
	family
	group *cgroup // nil: the command has no control group
	order order

	begun   func() error // called when the first process runs; may be nil
	hold    func() error // called before the program's first instruction; may be nil
	end     func()       // ends all processes
	ended   chan error
	started bool // whether the helper has executed the program
}

// ourProcesses is the number of bwrap's processes, which the command's limit does not
// count.
const ourProcesses = 2

func (b *Box) openConfined(ctx context.Context) (cell, error) {
	c := &confined{box: b, family: family{mark: b.running.newMark(), running: b.running}}
	c.end = c.kill
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
		n := &namespace{confined: c}
		c.begun, c.hold, c.end = n.begun, n.hold, n.kill
		return n, nil
	}
	var err error
	if c.dir, c.use, err = newDir(b.cfg.Dir, c.loan); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *confined) openGroup() (err error) {
	if c.box.groups != nil {
		c.group, err = c.box.groups.open(strconv.FormatUint(c.mark, 36))
	}
	return err
}

// groupLimits returns the limits of the control group, which has bwrap's own processes too.
func (c *confined) groupLimits() Limits {
	l := c.box.cfg.Limits
	if c.box.cfg.Level == Namespace {
		l.Processes += ourProcesses
	}
	return l
}

func (c *confined) prepare(program string, cmd Command) (*exec.Cmd, error) {
	return c.helper(program, cmd, c.dir, "/proc/self/exe", helperCommand), nil
}

// helper sets the order for a program, and returns the call of the helper.
func (c *confined) helper(program string, cmd Command, home string, call ...string) *exec.Cmd {
	c.order = order{
		Program: program, Args: cmd.Args, Env: c.box.cleanEnv(home, cmd.Env),
		Limits: c.limits(), Guard: c.box.guard(program, c.dir),
	}
	out := exec.Command(call[0], call[1:]...)
	out.Dir = c.dir
	out.Env = []string{"PATH=" + standardPath}
	out.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.loan != nil {
		out.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.loan.uid), Gid: uint32(c.loan.uid)}
	}
	if c.group != nil {
		out.SysProcAttr.UseCgroupFD, out.SysProcAttr.CgroupFD = true, int(c.group.dir.Fd())
	}
	return out
}

func (c *confined) limits() []rlimit {
	l := c.box.cfg.Limits
	cpu := uint64(l.CPU.Round(time.Second) / time.Second)
	same := func(resource int, n int64) rlimit { return rlimit{resource, uint64(n), uint64(n)} }
	return []rlimit{
		{unix.RLIMIT_CPU, cpu, cpu + 1}, // SIGXCPU first, then SIGKILL
		same(unix.RLIMIT_NOFILE, l.Files),
		same(unix.RLIMIT_FSIZE, l.FileSize),
		same(unix.RLIMIT_CORE, 0),
		{markResource, c.mark, c.mark},
		same(unix.RLIMIT_NPROC, c.processes()), // the last two can fail the helper
		same(unix.RLIMIT_AS, l.Memory),
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
// command starts: 0 for a user id of the command's own, and where the kernel counts the
// processes of each user namespace apart.
func (c *confined) already() (n int64) {
	if c.loan != nil || c.box.cfg.Level == Namespace && countsInNamespaces() {
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

// countsInNamespaces reports whether RLIMIT_NPROC holds for each user namespace: since Linux
// 5.14.
func countsInNamespaces() bool {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		return false
	}
	_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor) // 0.0 is an old one
	return major > 5 || major == 5 && minor >= 14
}

func (c *confined) wait(*exec.Cmd) error { return <-c.ended }

func (c *confined) terminate() { c.signal(unix.SIGTERM) }

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

var errNotStarted = errors.New("the command ended before its program was started")

// explain returns the limit whose signal ended the program. A shell reports the signal
// as an exit status above 128.
func (c *confined) explain(cmd *exec.Cmd) error {
	if c.group != nil {
		if err := c.group.exceeded(c.box.cfg.Limits); err != nil {
			return err
		}
	}
	if !c.started {
		return errNotStarted
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
	if c.group != nil {
		errs = append(errs, c.group.close())
	}
	if c.leader != 0 {
		c.running.remove(c.leader) // not earlier: until here no other command may adopt its orphans
	}
	if c.dir != "" {
		errs = append(errs, removeDir(c.dir), c.use.Close())
	}
	if c.loan != nil {
		errs = append(errs, c.loan.end())
	}
	return errors.Join(errs...)
}
