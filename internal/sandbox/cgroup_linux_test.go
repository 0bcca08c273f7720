package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// needCgroups skips a test where no group can bound memory and processes. In
// `make vm` there is no excuse.
func needCgroups(t *testing.T) {
	t.Helper()
	g, fact := findCgroups()
	if g != nil {
		check(t, g.close())
		if g.memory && g.pids {
			return
		}
	}
	if os.Getenv("OSQUEUE_TEST_CGROUPS") == "require" {
		t.Fatal("OSQUEUE_TEST_CGROUPS=require, but: " + fact)
	}
	t.Skip(fact + "; `make vm` has them")
}

// grouped is a bench whose commands have groups, and checks at the end that
// those of the box are gone as well.
func grouped(t *testing.T, level Level) *Box {
	t.Helper()
	needCgroups(t)
	var parent string
	t.Cleanup(func() { // after the bench has closed it
		if _, err := os.Stat(parent); parent != "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the control group of the worker remains: %v", err)
		}
	})
	b := bench(t, level, small)
	if text := b.Describe(); !strings.HasSuffix(text, ", control groups") {
		t.Errorf("it says %s", text)
	}
	parent = b.groups.parent
	return b
}

// severalHogs starts several processes, each of which stays well below the limit.
const severalHogs = `
import os, time
for i in range(4):
  if os.fork() == 0:
    x = bytearray(b"x") * (90 << 20)
    time.sleep(600)
while True: os.wait()
`

func TestMemoryInSum(t *testing.T) {
	onLevels(t, grouped, func(t *testing.T, b *Box) {
		hostileBeside(t, b, patient, py(severalHogs), ErrMemory, "more memory than its limit (268435456 bytes)")
		if got := output(t, b, sh("echo goes on")); got != "goes on\n" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

// patient limits leave time: it is another one that has to end the command.
var patient = func() Limits {
	l := small
	l.Timeout, l.CPU = 50*time.Second, 50*time.Second
	return l
}()

// The limit counts files in memory too.
func TestFilesInMemoryCount(t *testing.T) {
	b := grouped(t, Namespace)
	limits := patient
	limits.Memory, limits.Disk, limits.FileSize = 64<<20, 1<<30, 1<<30
	hostileBeside(t, b, limits, sh(`exec head -c 200000000 /dev/zero >f`), ErrMemory, "(67108864 bytes)")
}

func TestForkBombEndsAtTheGroupsLimit(t *testing.T) {
	onLevels(t, grouped, func(t *testing.T, b *Box) {
		hostileBeside(t, b, patient, sh(`bomb() { bomb & bomb; }; bomb`), ErrProcesses, "more processes than its limit (24)")
		if got := output(t, b, sh("echo goes on")); got != "goes on\n" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

const countsItsForks = `
import os, signal, time
pids = []
try:
  while True:
    pid = os.fork()
    if pid == 0: time.sleep(600)
    pids.append(pid)
except OSError: print(1 + len(pids))
for pid in pids:
  os.kill(pid, signal.SIGKILL)
  os.waitpid(pid, 0)
`

// A command has as many processes as it was promised, and those that the
// sandbox needs are not among them. One that bears it to be refused more has
// not failed.
func TestAllProcessesOfTheLimitCanBeHad(t *testing.T) {
	onLevels(t, grouped, func(t *testing.T, b *Box) {
		if got := output(t, b, py(countsItsForks)); got != "24\n" {
			t.Errorf("it had %s", got)
		}
	})
}

// groupVictims are the user ids of killed workers' commands. Their processes become
// zombies of this test process, which never reaps them. An id with zombies is not lent.
var groupVictims = map[Level]int{Process: 1_910_200_001, Namespace: 1_910_200_003}

// The groups of a killed worker, and what runs in them, end when the next one
// starts; those of a living one do not.
func TestGroupsOfAKilledWorkerAreRemoved(t *testing.T) {
	if level := os.Getenv("OSQUEUE_TEST_GROUP_VICTIM"); level != "" {
		groupVictim(t, Level(level))
		return
	}
	for _, level := range confinedLevels {
		t.Run(string(level), func(t *testing.T) {
			if level == Namespace {
				needBwrap(t)
			}
			living := grouped(t, Process)
			cmd := exec.CommandContext(limited(t), "/proc/self/exe", "-test.run", "^TestGroupsOfAKilledWorkerAreRemoved$")
			cmd.Env = append(os.Environ(), "OSQUEUE_TEST_GROUP_VICTIM="+string(level))
			check(t, cmd.Start())
			theirs := filepath.Join(filepath.Dir(living.groups.parent), groupPrefix+strconv.Itoa(cmd.Process.Pid)+"-*")
			// Those of bwrap come first.
			await(t, "the command's processes", func() bool { return running(t, theirs+"/*/cgroup.procs") >= 2 })
			check(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
			if left, err := filepath.Glob(theirs); err != nil || len(left) != 1 {
				t.Errorf("before the next worker: %v, %v", left, err)
			}
			next := grouped(t, level)
			if left, err := filepath.Glob(theirs); err != nil || len(left) > 0 {
				t.Errorf("remain: %v, %v", left, err)
			}
			if left := ofUID(t, groupVictims[level]); len(left) > 0 {
				t.Errorf("remain: %+v", left)
			}
			for _, b := range []*Box{living, next} {
				output(t, b, sh("true"))
			}
		})
	}
}

func groupVictim(t *testing.T, level Level) {
	b, err := New(t.Context(), Config{Level: level, Limits: small, UIDs: UIDRange{First: groupVictims[level] - 1, Count: 2}})
	check(t, err)
	_, _ = b.Run(t.Context(), sh(`setsid sleep 300 >/dev/null 2>&1 & exec sleep 300`))
}

// running counts the processes in files of the kernel.
func running(t *testing.T, pattern string) (n int) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	check(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have just been removed
		n += strings.Count(string(text), "\n")
	}
	return n
}

// Where nothing can be started in a control group the level works without.
func TestNothingStartsInAGroup(t *testing.T) {
	cfg, err := Config{Level: Process, Limits: small, UIDs: UIDRange{First: 1_910_000_000, Count: 64}}.withDefaults()
	check(t, err)
	b := &Box{cfg: cfg}
	check(t, b.setUp())
	defer b.Close()
	if b.groups == nil {
		t.Skip(b.Describe())
	}
	check(t, removeGroup(b.groups.parent))
	b.groups.memory, b.groups.pids = false, false // a directory takes no limits
	b.groups.parent = filepath.Join(t.TempDir(), "no-group")
	check(t, os.Mkdir(b.groups.parent, 0o755))
	if err := b.prove(t.Context()); err != nil || b.groups != nil {
		t.Errorf("%v, groups %v", err, b.groups)
	}
	if told := b.Describe(); !strings.Contains(told, "no control groups (start the command: ") {
		t.Errorf("it says %s", told)
	}
}

func TestLimitOfProcessesHasAnEnd(t *testing.T) {
	if _, err := New(t.Context(), Config{Level: Process, Limits: Limits{Processes: maxProcesses + 1}}); err == nil ||
		!strings.Contains(err.Error(), "must be at most 2097152") {
		t.Error(err)
	}
}

// What of the control groups is plain directories and files can be tested
// anywhere.

func TestOnlyGroupsThatNobodyHoldsAreRemoved(t *testing.T) {
	own := t.TempDir()
	for _, dir := range []string{"osqueue-1-left/a", "osqueue-1-left/b", "osqueue-2-empty", "osqueue-worker-3-left", "other/a", "osqueue-prod/a", "osqueue-worker-4-living/osqueue-5-nested/a"} {
		check(t, os.MkdirAll(filepath.Join(own, dir), 0o755))
	}
	living, held, err := makeHeldGroup(own)
	check(t, err)
	// Not of a worker are other and prod; and a worker may have been started in the leaf of another.
	want := []string{"osqueue-prod", "osqueue-worker-4-living", "other", filepath.Base(living)}
	slices.Sort(want)
	for range 2 {
		removeLeft(own)
		if got := dirsIn(own); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	for _, dir := range []string{"osqueue-prod/a", "osqueue-worker-4-living/osqueue-5-nested/a"} {
		if _, err := os.Stat(filepath.Join(own, dir)); err != nil {
			t.Error(err)
		}
	}
	held.Close()
	removeLeft(own)
	want = slices.DeleteFunc(want, func(name string) bool { return name == filepath.Base(living) })
	if got := dirsIn(own); !slices.Equal(got, want) {
		t.Errorf("after its worker's end there are %q", got)
	}
}

func TestAGroupIsHeldOnce(t *testing.T) {
	path, held, err := makeHeldGroup(t.TempDir())
	check(t, err)
	defer held.Close()
	if second, err := hold(path); err == nil {
		second.Close()
		t.Error("it was held twice")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("commands could lock it: %v, %v", info.Mode(), err)
	}
}

func TestWhatAGroupHasExceeded(t *testing.T) {
	limits := Limits{Memory: 7, Processes: 9}
	for _, c := range []struct{ memory, pids, want string }{
		{"", "", ""}, // no controllers
		{"low 0\nhigh 3\nmax 12\noom 2\noom_kill 0\noom_group_kill 0\n", "max 0\n", ""},
		{"max 12\noom 2\noom_kill 1\n", "max 3\n", "the command used more memory than its limit (7 bytes)"},
		{"oom_kill 0\n", "max 3\n", "the command started more processes than its limit (9)"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"memory.events": c.memory, "pids.events": c.pids} {
			if text == "" {
				continue
			}
			check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		file, err := os.Open(dir)
		check(t, err)
		got := ""
		if err := (&cgroup{dir: file}).exceeded(limits); err != nil {
			got = err.Error()
			if !IsLimit(err) || strings.Contains(got, "%!") {
				t.Errorf("%v is no limit", err)
			}
		}
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		file.Close()
	}
}
