package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A control group bounds those below it only while it has no process itself
// (cgroup-v2.rst, "No Internal Process Constraint"; the machine's first group
// alone is exempt). A worker that has its group for itself, as in a container or
// in a unit with Delegate=yes, therefore goes to a leaf below, and comes back
// when its last box is closed. With others in the group it stays: they are not
// the worker's to move.

// bounding are the controllers that bound a command.
var bounding = []string{"memory", "pids"}

// home is the group below which the boxes of this process make theirs.
type home struct {
	mu      sync.Mutex
	users   int
	dir     string
	leaf    string   // "": the worker is in dir itself, or above
	enabled []string // controllers of dir, for the worker's sake
	lacks   error    // why dir may not bound what is below
}

var everyHome = &home{}

// take returns the group to make groups below, and why it cannot bound them, if
// that is known. own is that of the worker. Each take needs a give.
func (h *home) take(own string) (dir string, lacks error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == 0 {
		h.dir = own
		if h.lacks = delegate(own); errors.Is(h.lacks, unix.EBUSY) {
			if h.lacks = h.move(); h.lacks == nil {
				h.lacks = h.bound()
			}
		}
	}
	h.users++
	return h.dir, h.lacks
}

// give brings the worker back where it was, after the last take. The groups made
// below are gone.
func (h *home) give() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users--; h.users > 0 || h.leaf == "" {
		return nil
	}
	return h.back()
}

// move takes the worker to a leaf.
func (h *home) move() error {
	before, err := words(filepath.Join(h.dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	if h.leaf, err = enterLeaf(h.dir, os.Getpid()); err != nil {
		return err
	}
	for _, name := range bounding {
		if !before[name] {
			h.enabled = append(h.enabled, name)
		}
	}
	return nil
}

// bound lets the group that the worker has left bound others.
func (h *home) bound() error {
	if err := delegate(h.dir); err != nil { // somebody has come to it meanwhile
		return errors.Join(err, h.back())
	}
	return nil
}

// back undoes move. A group that bounds others takes no process.
func (h *home) back() error {
	have, err := words(filepath.Join(h.dir, "cgroup.subtree_control"))
	for _, name := range h.enabled {
		if have[name] {
			err = errors.Join(err, os.WriteFile(filepath.Join(h.dir, "cgroup.subtree_control"), []byte("-"+name), 0))
		}
	}
	leaf := h.leaf
	h.leaf, h.enabled = "", nil
	if err = errors.Join(err, moveAll(leaf, h.dir)); err != nil {
		return fmt.Errorf("take the worker back to its control group: %w", err)
	}
	return removeGroup(leaf)
}

var errNotAlone = errors.New("the worker's own has processes of others too")

// enterLeaf moves all processes of own, if they are the worker's, to a new group
// below it.
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

// descend says whether all of pids are self or what it has started. The number
// of a process that this machine's namespace does not show is 0.
func descend(pids []int, all []proc, self int) bool {
	parent := make(map[int]int, len(all))
	for _, p := range all {
		parent[p.pid] = p.ppid
	}
	for _, pid := range pids {
		if !descends(pid, parent, self) {
			return false
		}
	}
	return true
}

// descends goes up no further than there are processes: what was read while
// numbers were given anew may lead in a circle.
func descends(pid int, parent map[int]int, self int) bool {
	for range len(parent) + 1 {
		if pid == self {
			return true
		}
		pid = parent[pid]
	}
	return false
}

// moveAll moves the processes of one group to another.
func moveAll(from, to string) error {
	pids, err := members(from)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}

// members are the processes of a group.
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
