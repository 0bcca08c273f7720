package sandbox

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// family is the set of processes of one command.
type family struct {
	loan    *uidLoan // nil: the command has no user id of its own, and members are found by descent
	leader  int      // the pid of its first process; 0: it has not started
	mark    string   // the value of markVariable in its environment
	running *runningSet
}

// members returns the present processes of the command. It includes zombies, except the
// zombie of the leader, which os/exec reaps. If strays is set, it includes processes
// that may belong to any command, but to none that runs.
func (c *family) members(strays bool) []proc {
	all, err := c.visible()
	if err != nil {
		return nil // /proc is gone: nothing can be done
	}
	if c.loan == nil {
		all = c.byDescent(all, strays)
	}
	var list []proc
	for _, p := range all {
		ours := c.loan == nil || p.uid == c.loan.uid
		if ours && (!p.zombie || p.pid != c.leader) {
			list = append(list, p)
		}
	}
	return list
}

// visible returns all processes. If members are found by descent, it waits until no
// command is being started.
func (c *family) visible() ([]proc, error) {
	if c.loan == nil {
		c.running.starts.Lock()
		defer c.running.starts.Unlock()
	}
	return processes()
}

// byDescent returns the members of a family that has no user id of its own.
func (c *family) byDescent(all []proc, strays bool) []proc {
	self := os.Getpid()
	others := c.running.others(c.mark)
	in := make(map[int]bool)
	for _, p := range all {
		if c.leader != 0 && (p.pid == c.leader || p.sid == c.leader) || c.adopted(p, self, others, strays) {
			in[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.ppid] && !in[p.pid] {
				in[p.pid], grown = true, true
			}
		}
	}
	var list []proc
	for _, p := range all {
		if in[p.pid] {
			list = append(list, p)
		}
	}
	return list
}

// adopted reports whether an orphan that the kernel has given to the worker belongs to
// this command or, if strays is set, to no command. Children that the worker has started
// in other ways lack no_new_privs, unless the worker has it itself.
func (c *family) adopted(p proc, self int, others map[string]bool, strays bool) bool {
	if p.ppid != self || c.running.leads(p.pid) {
		return false
	}
	mark := markOf(p.pid)
	if mark == c.mark {
		return true
	}
	return strays && p.noPrivs && !workerHasNoPrivs() && !others[mark]
}

// alive returns the members that are not zombies.
func (c *family) alive(strays bool) []proc {
	var list []proc
	for _, p := range c.members(strays) {
		if !p.zombie {
			list = append(list, p)
		}
	}
	return list
}

// signal sends sig to every member.
func (c *family) signal(sig unix.Signal, except func(proc) bool) {
	for _, p := range c.alive(false) {
		if except == nil || !except(p) {
			c.send(p, sig)
		}
	}
}

// send signals one process, if its number still means the same process.
func (c *family) send(p proc, sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return // the process is gone
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if now, ok := readProc(p.pid); !ok || now.uid != p.uid || now.sid != p.sid {
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0) // fails only if the process has ended
}

// rounds bounds the walks of kill. Each walk takes the right to fork from every process
// that it finds, so a few walks are enough for every program.
const rounds = 200

// kill ends all members. It first takes the right to fork from all of them, and then
// kills them.
func (c *family) kill() {
	if c.loan != nil && !hasProcesses(c.loan.uid) {
		return
	}
	barren := c.loan != nil && c.loan.pool.killAll(c.loan.uid) == nil
	if !barren {
		c.stop()
	}
	for i := range rounds {
		living := false
		for _, p := range c.members(true) {
			if p.zombie {
				c.reap(p)
				continue
			}
			living = true
			c.send(p, unix.SIGKILL)
		}
		if !living && (barren || c.loan == nil || !hasProcesses(c.loan.uid)) {
			return
		}
		time.Sleep(min(time.Duration(i+1)*time.Millisecond, 50*time.Millisecond)) // the kernel takes time to end them
	}
}

// stop takes the right to fork from every member that a walk finds, and stops it.
func (c *family) stop() {
	barren := make(map[int]bool)
	for range rounds {
		able := false
		for _, p := range c.alive(true) {
			if barren[p.pid] {
				continue
			}
			// Root without CAP_SYS_RESOURCE may not set the limit; then only the signal
			// stops it. stop also tries a process that is stopped already: a debugger
			// may have stopped only its first thread.
			barren[p.pid] = unix.Prlimit(p.pid, unix.RLIMIT_NPROC, &unix.Rlimit{}, nil) == nil
			if p.stopped && !barren[p.pid] {
				continue
			}
			able = true
			c.send(p, unix.SIGSTOP)
		}
		if !able {
			return
		}
	}
}

// reap waits for a zombie that the kernel has given to the worker.
func (c *family) reap(p proc) {
	if p.ppid == os.Getpid() && !c.running.leads(p.pid) {
		_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // fails only if the zombie is gone
	}
}

// linger is the time for processes that are about to end by themselves, such as the
// first ones of a pipe.
const linger = 200 * time.Millisecond

// settle waits for the members to end, and reports whether some did not. A stray counts
// against a command only if no other command runs. The user id had no processes before
// the command.
func (c *family) settle() (left bool) {
	deadline := time.Now().Add(linger)
	for pause := time.Millisecond; c.goesOn(); pause *= 2 {
		if time.Now().After(deadline) {
			return true
		}
		time.Sleep(pause)
	}
	return false
}

func (c *family) goesOn() bool {
	if c.loan == nil {
		return len(c.alive(len(c.running.others(c.mark)) == 0)) > 0
	}
	if !hasProcesses(c.loan.uid) {
		return false
	}
	for _, p := range c.members(false) {
		if !p.zombie {
			return true
		}
		c.reap(p)
	}
	return hasProcesses(c.loan.uid)
}

func taskDir(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/task" }
