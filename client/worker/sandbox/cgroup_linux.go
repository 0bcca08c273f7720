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
	parent       string // a directory without processes of its own
	memory, pids bool   // can be bounded
}

// cgroupRoots are where version 2 is mounted, alone or beside version 1.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// findCgroups returns nil if no group can be made; fact tells people.
func findCgroups() (g *cgroups, fact string) {
	g, err := openCgroups()
	switch {
	case err != nil:
		return nil, fmt.Sprintf("no control groups (%v): memory and processes are bounded for each process only", err)
	case !g.memory || !g.pids:
		return g, "control groups without the controllers of memory and pids: these are bounded for each process only"
	}
	return g, "control groups"
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
	_ = delegate(own) // what is not delegated is not found below
	g := &cgroups{parent: filepath.Join(own, "osqueue-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))}
	if err := os.Mkdir(g.parent, 0o755); err != nil {
		return nil, err
	}
	_ = delegate(g.parent)
	have, err := words(filepath.Join(g.parent, "cgroup.subtree_control"))
	if err != nil {
		return nil, errors.Join(err, os.Remove(g.parent))
	}
	g.memory, g.pids = have["memory"], have["pids"]
	return g, nil
}

// delegate lets groups below dir bound memory and processes.
func delegate(dir string) error {
	have, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{"memory", "pids"} {
		if have[name] {
			errs = append(errs, os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0))
		}
	}
	return errors.Join(errs...)
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
func (g *cgroups) close() error { return removeGroup(g.parent) }

// cgroup is that of one command.
type cgroup struct {
	dir *os.File
}

func (g *cgroups) open(name string, l Limits) (*cgroup, error) {
	path := filepath.Join(g.parent, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the control group: %w", errors.Join(err, os.Remove(path)))
	}
	c := &cgroup{dir: dir}
	if err := c.bound(g, l); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// ourProcesses are those of bwrap, which the command's limit does not count.
const ourProcesses = 2

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
		return c.set("pids.max", l.Processes+ourProcesses)
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

// outOfMemory says whether the kernel has ended a process of the group for it.
func (c *cgroup) outOfMemory() bool {
	text, err := os.ReadFile(filepath.Join(c.dir.Name(), "memory.events"))
	if err != nil {
		return false // no controller
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
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
