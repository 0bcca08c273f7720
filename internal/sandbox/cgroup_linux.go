package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups makes a control group for each command, below the worker's own group.
type cgroups struct {
	parent       string   // a directory without processes of its own
	held         *os.File // the lock that marks parent as in use; see hold
	memory, pids bool     // whether the controller bounds the groups below parent
	lacks        error    // why a controller is missing, if known
}

// cgroupRoots are the mount points of version 2, alone or next to version 1.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// findCgroups returns nil if no group can be made. fact describes the result for
// Box.Describe.
func findCgroups() (g *cgroups, fact string) {
	g, err := openCgroups()
	switch {
	case err != nil:
		return nil, withoutGroups(err)
	case (!g.memory || !g.pids) && g.lacks != nil:
		return g, fmt.Sprintf("control groups without the controllers memory and pids (%v): memory is limited for each process, not for the command", g.lacks)
	case !g.memory || !g.pids:
		return g, "control groups without the controllers memory and pids: memory is limited for each process, not for the command"
	}
	return g, "control groups"
}

func withoutGroups(why error) string {
	return fmt.Sprintf("no control groups (%v): memory is limited for each process, not for the command", why)
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
		return nil, errors.New("the worker is not in a control group of version 2")
	}
	for _, root := range cgroupRoots {
		var st unix.Statfs_t
		if err := unix.Statfs(root, &st); err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return newCgroups(filepath.Join(root, own))
		}
	}
	return nil, errors.New("version 2 is not mounted")
}

// newCgroups makes the parent of the commands' groups below the group own.
func newCgroups(own string) (*cgroups, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the worker is not root")
	}
	g := &cgroups{}
	own, g.lacks = everyHome.find(own)
	removeLeft(own)
	var err error
	if g.parent, g.held, err = makeHeldGroup(own); err != nil {
		return nil, err
	}
	_ = delegate(g.parent) // a controller that was not delegated is missing from the file read next
	have, err := words(filepath.Join(g.parent, "cgroup.subtree_control"))
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	g.memory, g.pids = have["memory"], have["pids"]
	return g, nil
}

var errNoControllers = errors.New("the control group of the worker does not have them")

// delegate lets groups below dir bound memory and processes: both or neither. If a group
// with processes delegates pids alone, no process can start in the groups below it
// ("domain invalid").
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

// close removes the parent group. All groups below it must be closed.
func (g *cgroups) close() error {
	defer g.held.Close()
	return removeGroup(g.parent)
}

// cgroup is the control group of one command.
type cgroup struct {
	dir    *os.File
	counts bool // whether the group bounds the number of its processes
}

// open makes the group of a command, without limits.
func (g *cgroups) open(name string) (*cgroup, error) {
	path := filepath.Join(g.parent, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the control group: %w", errors.Join(err, os.Remove(path)))
	}
	return &cgroup{dir: dir, counts: g.pids}, nil
}

func (c *cgroup) bound(g *cgroups, l Limits) error {
	if g.memory {
		if err := c.set("memory.max", l.Memory); err != nil {
			return err
		}
		if err := c.set("memory.oom.group", 1); err != nil {
			return err
		}
		if err := c.set("memory.swap.max", 0); err != nil && !errors.Is(err, os.ErrNotExist) { // a machine without swap has no such file
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
	_ = c.set("cgroup.kill", 1) // kernels before 5.14 have no such file; the walk of /proc follows
}

// exceeded returns an error for the limit of the group that was reached, or nil.
func (c *cgroup) exceeded(l Limits) error {
	switch {
	case c.event("memory.events", "oom_kill"): // the kernel killed a process because of the limit
		return errBytes(ErrMemory, l.Memory)
	case c.event("pids.events", "max"): // the kernel refused a fork because of the limit
		return errLimit(ErrProcesses, l.Processes)
	}
	return nil
}

// event reports whether the counter name in the group's file is above 0.
func (c *cgroup) event(file, name string) bool {
	text, err := os.ReadFile(filepath.Join(c.dir.Name(), file))
	if err != nil {
		return false // the group lacks the controller
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

// removeGroup removes an empty group. The kernel counts a group as empty only a moment
// after its last process has ended, so removeGroup retries.
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

// groupPrefix is the prefix of the names of all groups that workers make.
const groupPrefix = "osqueue-"

// Patterns of the workers' groups. Groups of other programs may have the same prefix,
// such as osqueue-prod.
var (
	commandsName = regexp.MustCompile(`^` + groupPrefix + `\d+-[0-9a-z]+$`)
	leafName     = regexp.MustCompile(`^` + groupPrefix + `worker-\d+-[0-9a-z]+$`)
)

// makeHeldGroup makes a locked group below own.
func makeHeldGroup(own string) (path string, held *os.File, err error) {
	return makeHeld(func() (string, error) {
		path := filepath.Join(own, groupPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
		if err := os.Mkdir(path, 0o700); err != nil {
			return "", fmt.Errorf("make a control group: %w", err)
		}
		return path, nil
	})
}

// removeLeft removes the groups below own that killed workers have left. If a group
// cannot be removed now, the next worker tries again. removeLeft ends no process in a
// leaf: the processes below a leaf belong to another worker, which was started there.
func removeLeft(own string) {
	for _, name := range dirsIn(own) {
		path := filepath.Join(own, name)
		if leafName.MatchString(name) {
			_ = os.Remove(path) // fails while the leaf is in use
		}
		if !commandsName.MatchString(name) {
			continue
		}
		if held, err := hold(path); err == nil {
			removeWithAll(path)
			held.Close()
		}
	}
}

// removeWithAll ends all processes in the commands' groups below path, and removes these
// groups and path.
func removeWithAll(path string) {
	for _, name := range dirsIn(path) {
		group := filepath.Join(path, name)
		if dir, err := os.Open(group); err == nil {
			c := &cgroup{dir: dir}
			c.kill()
			_ = c.close() // fails while a process of the group lives
		}
	}
	_ = os.Remove(path) // the next worker tries again
}
