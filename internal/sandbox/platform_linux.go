package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/elastic/go-seccomp-bpf/arch"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// platform is the part of a Box for the levels above None.
type platform struct {
	uids     *uidPool // nil: the worker is not root, and commands run as its user
	running  *runningSet
	bwrap    string   // the program
	self     *os.File // this program, for bwrap
	landlock bool
	groups   *cgroups // nil: commands have no control groups
}

// setUp prepares a level above None.
func (b *Box) setUp() error {
	if !canHelp {
		return errors.New("the main function of this program does not call sandbox.RunHelper")
	}
	b.running = everyRunning
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	if err := closeOnExec(); err != nil {
		return err
	}
	if err := b.setUpUser(); err != nil {
		return err
	}
	if b.cfg.Level == Namespace {
		if err := b.setUpNamespace(); err != nil {
			return err
		}
	} else {
		removeLeftDirs(b.cfg.Dir, b.cfg.UIDs)
	}
	if err := b.setUpGuard(); err != nil {
		return err
	}
	b.facts = append(b.facts, b.netFact())
	if b.cfg.NoCgroup {
		return nil
	}
	return b.setUpGroups()
}

// setUpGroups finds the control groups of the worker, and sets their weights.
func (b *Box) setUpGroups() error {
	var fact string
	b.groups, fact = findCgroups()
	missing := b.groups == nil || !b.groups.memory || !b.groups.pids
	if b.groups != nil {
		weights, err := b.groups.setWeights(b.cfg.CPUWeight, b.cfg.IOWeight)
		fact += weights
		missing = missing || err != nil
	}
	b.facts = append(b.facts, fact)
	if missing && b.cfg.RequireCgroup {
		return fmt.Errorf("control groups are required: %s", fact)
	}
	return nil
}

// leaveGroups disables the control groups, and reports whether there were any. It is
// called if no command can run in them: a kernel before 5.7, or a filter of the
// container, cannot start a process in a group.
func (b *Box) leaveGroups(why error) bool {
	if b.groups == nil || b.cfg.RequireCgroup {
		return false
	}
	err := b.groups.close()
	b.groups = nil
	b.facts[len(b.facts)-1] = withoutGroups(errors.Join(why, err))
	return true
}

// closeOnExec marks all open descriptors close-on-exec, so that commands do not get
// descriptors that the worker was started with. Go marks the descriptors that it opens.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func (b *Box) setUpUser() error {
	if os.Geteuid() == 0 {
		b.facts = append(b.facts, fmt.Sprintf("user ids %d to %d", b.cfg.UIDs.First, b.cfg.UIDs.First+b.cfg.UIDs.Count-1))
		var err error
		b.uids, err = newUIDPool(lockDir, b.cfg.UIDs)
		return err
	}
	b.facts = append(b.facts, "commands run as the worker's own user")
	// Commands must not read the worker's environment and memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	return nil
}

func (b *Box) setUpNamespace() error {
	var err error
	if b.bwrap, err = exec.LookPath("bwrap"); err != nil {
		return errors.New("bubblewrap (the program bwrap) is not installed; install it (Debian: apt-get install bubblewrap)")
	}
	if b.self, err = os.OpenFile("/proc/self/exe", unix.O_PATH, 0); err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	return nil
}

// setUpGuard prepares what restricts commands. Landlock is used if the machine has it, because
// the levels do not promise it.
func (b *Box) setUpGuard() error {
	if _, err := arch.GetInfo(""); err != nil {
		return fmt.Errorf("make the filter of system calls: %w", err)
	}
	b.facts = append(b.facts, "system calls filtered")
	if b.cfg.NoLandlock {
		b.facts = append(b.facts, "no Landlock (switched off)")
		return nil
	}
	version, err := ll.LandlockGetABIVersion()
	switch {
	case err == nil:
		b.landlock = true
		b.facts = append(b.facts, fmt.Sprintf("Landlock %d", version))
	case b.cfg.RequireLandlock:
		return fmt.Errorf("the kernel lacks Landlock, which is required: %w", err)
	case b.cfg.Level == Process:
		b.facts = append(b.facts, fmt.Sprintf("no Landlock (%v): commands read what all users may read", err))
	}
	return nil
}

// guard returns the guard of a program with the directory dir.
func (b *Box) guard(program, dir string) guard {
	g := guard{Landlock: b.landlock, Families: families}
	if b.cfg.Level == Namespace { // which shows nothing else
		g.Change, g.Read = []string{"/tmp", "/dev", "/proc"}, []string{"/"}
		return g
	}
	g.Change, g.Refuse = []string{dir}, lasting
	g.Read = append(append(systemFiles(), program), b.cfg.ReadOnly...)
	if b.cfg.Net == NetNone {
		g.Families = nil
	}
	return g
}

func (b *Box) netFact() string {
	if b.cfg.Net == NetHost {
		return "the machine's network"
	}
	return "no network"
}

// advice describes the settings of the system that may prevent a level, as far as the
// system shows them.
func (b *Box) advice() string {
	if b.cfg.Level != Namespace {
		return fmt.Sprintf("; all users must have the right to execute this program and to pass all directories on the way to %s "+
			"(or name another one: --sandbox-dir), and root needs the user ids of its range", b.cfg.Dir)
	}
	return "; the level needs unprivileged user namespaces (sysctls kernel.unprivileged_userns_clone, user.max_user_namespaces," +
		" kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile)"
}

func (b *Box) open(ctx context.Context) (cell, error) {
	if b.cfg.Level == None {
		return &group{}, nil
	}
	return b.openConfined(ctx)
}

// Close waits for the running commands and frees the resources of the box. The commands'
// contexts should have ended. No command may be run after Close.
func (b *Box) Close() error {
	b.under.Wait()
	var errs []error
	if b.self != nil {
		errs = append(errs, b.self.Close())
		b.self = nil
	}
	if b.groups != nil {
		errs = append(errs, b.groups.close())
		b.groups = nil
	}
	return errors.Join(errs...)
}
