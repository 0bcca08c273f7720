package sandbox

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// crowd are the processes of one command.
type crowd struct {
	loan    *uidLoan // nil: it has no user id of its own, and members are found by descent
	leader  int      // its first process; 0: it has not started
	mark    string   // in its environment
	running *roster
}

// members are the crowd's processes at the moment, zombies among them, but not
// the zombie of the leader, which os/exec waits for. With strays also what may
// be of any command, but of none that is under way.
func (c *crowd) members(strays bool) []proc {
	all, err := c.visible()
	if err != nil {
		return nil // /proc is gone: nothing that could be done
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

// visible are all processes, at a moment at which no command is being started if
// members are found by descent.
func (c *crowd) visible() ([]proc, error) {
	if c.loan == nil {
		c.running.starts.Lock()
		defer c.running.starts.Unlock()
	}
	return processes()
}

// byDescent finds the members of a crowd that has no user id of its own.
func (c *crowd) byDescent(all []proc, strays bool) []proc {
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

// adopted says whether an orphan that the kernel has given to the worker is the
// crowd's, or nobody's. Children that the worker has started in other ways do
// not have no_new_privs, unless it has it itself.
func (c *crowd) adopted(p proc, self int, others map[string]bool, strays bool) bool {
	if p.ppid != self || c.running.leads(p.pid) {
		return false
	}
	mark := markOf(p.pid)
	if mark == c.mark {
		return true
	}
	return strays && p.noPrivs && !workerHasNoPrivs() && !others[mark]
}

// alive are the members that are not zombies.
func (c *crowd) alive(strays bool) []proc {
	var list []proc
	for _, p := range c.members(strays) {
		if !p.zombie {
			list = append(list, p)
		}
	}
	return list
}

// signal sends sig to every member.
func (c *crowd) signal(sig unix.Signal, except func(proc) bool) {
	for _, p := range c.alive(false) {
		if except == nil || !except(p) {
			c.send(p, sig)
		}
	}
}

// send signals one process, if its number still means the same one.
func (c *crowd) send(p proc, sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return // gone
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if now, ok := readProc(p.pid); !ok || now.uid != p.uid || now.sid != p.sid {
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0) // an error says that it has ended
}

// rounds bound the walks of kill. Each takes from everybody found the right to
// fork, so few are needed, whatever a program does.
const rounds = 200

// kill ends all members: first nobody may fork any more, then nobody lives.
func (c *crowd) kill() {
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
		time.Sleep(min(time.Duration(i+1)*time.Millisecond, 50*time.Millisecond)) // the system takes its time to end them
	}
}

// stop takes the right to fork from every member that a walk finds, and stops it.
func (c *crowd) stop() {
	barren := make(map[int]bool)
	for range rounds {
		able := false
		for _, p := range c.alive(true) {
			if barren[p.pid] {
				continue
			}
			// Root without CAP_SYS_RESOURCE may not: the signal has to do. It is asked also
			// for one that is stopped: a debugger may have stopped its first thread alone.
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

// reap frees a zombie that the kernel has given to the worker.
func (c *crowd) reap(p proc) {
	if p.ppid == os.Getpid() && !c.running.leads(p.pid) {
		_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // an error says that it is gone
	}
}

// linger is what processes get that are about to end by themselves, as the
// first ones of a pipe.
const linger = 200 * time.Millisecond

// settle waits for the members to end, and says whether some did not. A stray is
// held against a command only if it alone is under way. The user id had no processes
// before the command.
func (c *crowd) settle() (left bool) {
	deadline := time.Now().Add(linger)
	for pause := time.Millisecond; c.goesOn(); pause *= 2 {
		if time.Now().After(deadline) {
			return true
		}
		time.Sleep(pause)
	}
	return false
}

func (c *crowd) goesOn() bool {
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
