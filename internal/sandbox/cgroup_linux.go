package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups makes a control group for each command, below that of the worker.
type cgroups struct {
	parent       string   // a directory without processes of its own
	held         *os.File // says that it is in use; see hold
	memory, pids bool     // can be bounded
	lacks        error    // why not, if that is known
}

// cgroupRoots are where version 2 is mounted, alone or beside version 1.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// findCgroups returns nil if no group can be made; fact tells people.
func findCgroups() (g *cgroups, fact string) {
	g, err := openCgroups()
	switch {
	case err != nil:
		return nil, withoutGroups(err)
	case (!g.memory || !g.pids) && g.lacks != nil:
		return g, fmt.Sprintf("control groups without the controllers memory and pids (%v): memory is bounded for each process only, not in sum", g.lacks)
	case !g.memory || !g.pids:
		return g, "control groups without the controllers memory and pids: memory is bounded for each process only, not in sum"
	}
	return g, "control groups"
}

func withoutGroups(why error) string {
	return fmt.Sprintf("no control groups (%v): memory is bounded for each process only, not in sum", why)
}

func openCgroups() (*cgroups, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	own := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if own == "" {
		return nil, errors.New("the worker is in none of version 2")
	}
	for _, root := range cgroupRoots {
		var st unix.Statfs_t
		if err := unix.Statfs(root, &st); err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return newCgroups(filepath.Join(root, own))
		}
	}
	return nil, errors.New("version 2 is not mounted")
}

// newCgroups makes a group for groups below own.
func newCgroups(own string) (*cgroups, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the worker is not root")
	}
	g := &cgroups{}
	own, g.lacks = everyHome.take(own)
	removeLeft(own)
	var err error
	if g.parent, g.held, err = makeHeldGroup(own); err != nil {
		return nil, errors.Join(err, everyHome.give())
	}
	_ = delegate(g.parent) // what is not delegated is not found below
	have, err := words(filepath.Join(g.parent, "cgroup.subtree_control"))
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	g.memory, g.pids = have["memory"], have["pids"]
	return g, nil
}

var errNoControllers = errors.New("they are not on version 2 there")

// delegate lets groups below dir bound memory and processes: both at once or
// neither. A group with processes takes pids alone, and then nothing can be
// started in those below it ("domain invalid").
func delegate(dir string) error {
	have, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !have["memory"] || !have["pids"] {
		return errNoControllers
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+strings.Join(bounding, " +")), 0)
}

func words(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool)
	for _, word := range strings.Fields(string(text)) {
		set[word] = true
	}
	return set, nil
}

// close removes the group of groups.
func (g *cgroups) close() error {
	defer g.held.Close()
	return errors.Join(removeGroup(g.parent), everyHome.give())
}

// cgroup is that of one command.
type cgroup struct {
	dir    *os.File
	counts bool // its processes
}

// open makes the group of a command. Of its processes the first ones, which are
// ours, are not counted.
func (g *cgroups) open(name string, l Limits, ours int64) (*cgroup, error) {
	path := filepath.Join(g.parent, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the control group: %w", errors.Join(err, os.Remove(path)))
	}
	l.Processes += ours
	c := &cgroup{dir: dir, counts: g.pids}
	if err := c.bound(g, l); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cgroup) bound(g *cgroups, l Limits) error {
	if g.memory {
		if err := c.set("memory.max", l.Memory); err != nil {
			return err
		}
		if err := c.set("memory.oom.group", 1); err != nil {
			return err
		}
		if err := c.set("memory.swap.max", 0); err != nil && !errors.Is(err, os.ErrNotExist) { // no swap, no file
			return err
		}
	}
	if g.pids {
		return c.set("pids.max", l.Processes)
	}
	return nil
}

func (c *cgroup) set(file string, value int64) error {
	f, err := os.OpenFile(filepath.Join(c.dir.Name(), file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", file, err)
	}
	defer f.Close()
	if _, err := f.WriteString(strconv.FormatInt(value, 10)); err != nil {
		return fmt.Errorf("set %s: %w", file, err)
	}
	return nil
}

// kill ends all processes of the group at once.
func (c *cgroup) kill() {
	_ = c.set("cgroup.kill", 1) // kernels before 5.14 have none; the walk of /proc follows
}

// exceeded tells of a limit of the group that was reached; nil: none.
func (c *cgroup) exceeded(l Limits) error {
	switch {
	case c.event("memory.events", "oom_kill"): // the kernel has ended a process for it
		return errBytes(ErrMemory, l.Memory)
	case c.event("pids.events", "max"): // it has refused one
		return errLimit(ErrProcesses, l.Processes)
	}
	return nil
}

// event says whether something has happened that the kernel counts in a file.
func (c *cgroup) event(file, name string) bool {
	text, err := os.ReadFile(filepath.Join(c.dir.Name(), file))
	if err != nil {
		return false // no controller
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok && n != "0" {
			return true
		}
	}
	return false
}

func (c *cgroup) close() error {
	c.dir.Close()
	return removeGroup(c.dir.Name())
}

// removeGroup removes an empty group. It counts as empty only a moment after
// its last process has ended.
func removeGroup(path string) error {
	var err error
	for i := range rounds {
		if err = os.Remove(path); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(min(time.Duration(i+1)*time.Millisecond, 20*time.Millisecond))
	}
	return fmt.Errorf("remove the control group: %w", err)
}
