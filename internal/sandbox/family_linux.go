package sandbox

import (
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A command without a user id of its own has a mark instead: a hard limit that is its number. The
// kernel passes it on to every process that the command starts, shows it to the worker, and lets a
// process without privileges lower it only. RLIMIT_LOCKS has had no other effect since Linux 2.4.

// markResource is the limit that contains the mark.
const markResource = unix.RLIMIT_LOCKS

// noMark is the mark of the worker, and so of the processes that it starts in other ways.
var noMark = sync.OnceValue(func() uint64 { return markOf(os.Getpid()) })

// markOf returns the mark of a process. A process that is gone has the highest one.
func markOf(pid int) uint64 {
	var has unix.Rlimit
	if err := unix.Prlimit(pid, markResource, nil, &has); err != nil {
		return math.MaxUint64
	}
	return has.Max
}

// runningSet records the first processes of the running commands of all boxes of this
// process, by their pids, and gives out marks. An orphan with a mark of none of them is a stray.
type runningSet struct {
	mu      sync.Mutex
	marks   uint64 // given out so far
	leaders map[int]uint64
}

var everyRunning = &runningSet{leaders: make(map[int]uint64)}

func (r *runningSet) newMark() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks++
	return noMark() - r.marks
}

func (r *runningSet) add(pid int, mark uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders[pid] = mark
}

func (r *runningSet) remove(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, pid)
}

// others returns the marks of all running commands except own.
func (r *runningSet) others(own uint64) map[uint64]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks := make(map[uint64]bool, len(r.leaders))
	for _, mark := range r.leaders {
		if mark != own {
			marks[mark] = true
		}
	}
	return marks
}

func (r *runningSet) leads(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.leaders[pid]
	return ok
}

// family is the set of processes of one command.
type family struct {
	loan    *uidLoan // nil: the command has no user id of its own, and members are found by descent
	leader  int      // the pid of its first process; 0: it has not started
	mark    uint64
	running *runningSet
}

// members returns the present processes of the command. It includes zombies, except the
// zombie of the leader, which os/exec reaps. If strays is set, it includes processes
// that may belong to any command, but to none that runs.
func (c *family) members(strays bool) []proc {
	all, err := processes()
	if err != nil {
		return nil // /proc is gone: nothing can be done
	}
	ours := func(p proc) bool { return p.uid == c.loan.uid }
	if c.loan == nil {
		in := c.byDescent(all, strays)
		ours = func(p proc) bool { return in[p.pid] }
	}
	var list []proc
	for _, p := range all {
		if ours(p) && (!p.zombie || p.pid != c.leader) {
			list = append(list, p)
		}
	}
	return list
}

// byDescent returns the pids of the members of a family that has no user id of its own.
func (c *family) byDescent(all []proc, strays bool) map[int]bool {
	others := c.running.others(c.mark)
	in := make(map[int]bool)
	for _, p := range all {
		if c.leader != 0 && p.pid == c.leader || c.adopted(p, others, strays) {
			in[p.pid] = true
		}
	}
	addDescendants(all, in)
	return in
}

// addDescendants adds the descendants of the processes in a set.
func addDescendants(all []proc, in map[int]bool) {
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.ppid] && !in[p.pid] {
				in[p.pid], grown = true, true
			}
		}
	}
}

// adopted reports whether an orphan that the kernel has given to the worker belongs to
// this command or, if strays is set, to no command.
func (c *family) adopted(p proc, others map[uint64]bool, strays bool) bool {
	if p.ppid != os.Getpid() || c.running.leads(p.pid) {
		return false
	}
	mark := markOf(p.pid)
	return mark == c.mark || strays && mark < noMark() && !others[mark]
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
func (c *family) signal(sig unix.Signal) {
	for _, p := range c.alive(false) {
		send(p, sig)
	}
}

// send signals one process, if its number still means the same process.
func send(p proc, sig unix.Signal) {
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
	barren := c.loan != nil && c.loan.killAll() == nil
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
			send(p, unix.SIGKILL)
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
			send(p, unix.SIGSTOP)
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
