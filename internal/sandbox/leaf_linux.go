package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A control group bounds the groups below it only while it has no process itself
// (cgroup-v2.rst, "No Internal Process Constraint"; the machine's first group is
// exempt). A worker may have its group for itself, in a container or in a unit with
// Delegate=yes. It then moves to a leaf below, for the rest of its life.
// If the group has processes of others, the worker stays: it must not move them.

// bounding lists the controllers that bound a command.
var bounding = []string{"memory", "pids"}

// home is the group below which all boxes of this process make their groups.
type home struct {
	mu    sync.Mutex
	dir   string // "": not known yet
	lacks error  // why dir cannot bound the groups below it
}

var everyHome = &home{}

// find returns the group below which the caller makes groups, and why it cannot bound
// them, if known. own is the worker's group at its start.
func (h *home) find(own string) (dir string, lacks error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir != "" {
		return h.dir, h.lacks
	}
	h.dir, h.lacks = own, delegate(own)
	if errors.Is(h.lacks, unix.EBUSY) {
		if _, h.lacks = enterLeaf(own, os.Getpid()); h.lacks == nil {
			h.lacks = delegate(own) // fails if another process has entered the group
		}
	}
	return h.dir, h.lacks
}

var errNotAlone = errors.New("the worker's group also contains processes of other programs")

// enterLeaf makes a leaf below own and moves all processes of own there, if all of them
// are the worker's.
func enterLeaf(own string, worker int) (leaf string, err error) {
	pids, err := members(own)
	if err != nil {
		return "", err
	}
	all, err := processes()
	if err != nil {
		return "", err
	}
	if !descend(pids, all, worker) {
		return "", errNotAlone
	}
	leaf = filepath.Join(own, groupPrefix+"worker-"+strconv.Itoa(worker)+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.Mkdir(leaf, 0o755); err != nil {
		return "", err
	}
	if err := moveAll(own, leaf); err != nil {
		return "", errors.Join(err, moveAll(leaf, own), removeGroup(leaf))
	}
	return leaf, nil
}

// descend reports whether each of pids is self or a descendant of self. A process of
// another pid namespace has the number 0.
func descend(pids []int, all []proc, self int) bool {
	parent := make(map[int]int, len(all))
	for _, p := range all {
		parent[p.pid] = p.ppid
	}
	return !slices.ContainsFunc(pids, func(pid int) bool { return !descends(pid, parent, self) })
}

// descends reports whether pid descends from self. It bounds its steps by the number of
// processes: if the kernel reuses numbers during the walk, the parents may form a
// circle.
func descends(pid int, parent map[int]int, self int) bool {
	for range len(parent) + 1 {
		if pid == self {
			return true
		}
		pid = parent[pid]
	}
	return false
}

// moveAll moves the processes of the group from to the group to.
func moveAll(from, to string) error {
	pids, err := members(from)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // the process has ended
			return err
		}
	}
	return nil
}

// members returns the processes of a group.
func members(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
