package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small limits: what a hostile command may waste here is little.
var small = Limits{
	Timeout: 30 * time.Second, CPU: 10 * time.Second, Memory: 256 << 20, Files: 64, Processes: 24, FileSize: 2 << 20, Disk: 8 << 20,
}

// bench is a box of a level with a directory of its own, and checks at the end
// of the test that nothing of its commands remains.
func bench(t *testing.T, level Level, limits Limits, change ...func(*Config)) *Box {
	t.Helper()
	if level == Namespace {
		needBwrap(t)
	}
	dir := openDir(t)
	cfg := Config{Level: level, Limits: limits, Dir: dir, UIDs: UIDRange{First: 1_910_000_000, Count: 64}}
	for _, fn := range change {
		fn(&cfg)
	}
	b, err := New(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() {
		checkNothingRemains(t, b, dir)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		checkEmpty(t, dir)
	})
	return b
}

// openDir makes a directory that all users may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

// plain is a bench with small limits.
func plain(t *testing.T, level Level) *Box {
	t.Helper()
	return bench(t, level, small)
}

// onLevels calls test with a box of each level that confines commands.
func onLevels(t *testing.T, open func(*testing.T, Level) *Box, test func(t *testing.T, b *Box)) {
	t.Helper()
	for _, level := range confinedLevels {
		t.Run(string(level), func(t *testing.T) { test(t, open(t, level)) })
	}
}

func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("in the directory remain %v, %v", entries, err)
	}
}

func needBwrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err == nil {
		return
	}
	if os.Getenv("OSQUEUE_TEST_SANDBOX") == "require" {
		t.Fatal("OSQUEUE_TEST_SANDBOX=require, but bubblewrap is not installed (apt-get install bubblewrap)")
	}
	t.Skip("bubblewrap is not installed")
}

func checkNothingRemains(t *testing.T, b *Box, dir string) {
	t.Helper()
	checkEmpty(t, dir)
	all, err := processes()
	check(t, err)
	for _, p := range all {
		ours := b.uids != nil && p.uid >= 1_910_000_000 && p.uid < 1_910_000_064
		if ours || b.uids == nil && p.ppid == os.Getpid() && markOf(p.pid) < noMark() {
			t.Errorf("a process remains: %+v", p)
		}
	}
	for _, shared := range sharedDirs {
		entries, _ := os.ReadDir(shared)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				if uid := info.Sys().(*syscall.Stat_t).Uid; b.uids != nil && uid >= 1_910_000_000 && uid < 1_910_000_064 {
					t.Errorf("%s remains in %s", e.Name(), shared)
				}
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("a mount remains: %v", err)
	}
	if b.groups != nil {
		if left, err := filepath.Glob(b.groups.parent + "/*/cgroup.procs"); err != nil || len(left) > 0 {
			t.Errorf("control groups remain: %v, %v", left, err)
		}
	}
}

var confinedLevels = []Level{Process, Namespace}

func sh(script string) Command { return Command{Args: []string{"/bin/sh", "-c", script}} }

func py(script string) Command { return Command{Args: []string{"/usr/bin/python3", "-Ic", script}} }

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Each hostile command fails for a named reason, a good neighbour that runs at the same
// time succeeds, and the box still works afterwards.
func TestHostileCommandsFail(t *testing.T) { //nolint:tparallel // without root, a fork bomb takes the processes of the others
	type hostile struct {
		name string
		cmd  Command
		is   error  // the reason, or
		says string // what the error, or the end of stderr, says
		only Level  // "": both
		root bool   // what it does is said of Process in the package comment, if the worker is not root
	}
	cases := []hostile{
		{name: "fork bomb in a shell", cmd: sh(`bomb() { bomb & bomb; }; bomb`), says: "exit status"},
		{
			name: "fork bomb that does not give up", is: ErrTimeout,
			cmd: py("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"),
		},
		{name: "memory hog", cmd: py("x = bytearray(1 << 30)"), says: "MemoryError"},
		{name: "endless loop", cmd: sh(`while :; do :; done`), is: ErrCPU},
		{name: "one large file", cmd: sh(`exec dd if=/dev/zero of=big bs=1M count=100`), is: ErrFileSize},
		{
			name: "many files", is: ErrDisk, only: Process,
			cmd: sh(`i=0; while :; do head -c 1000000 /dev/zero >f$i || exit 9; i=$((i+1)); done`),
		},
		{
			name: "many files", says: "No space left", only: Namespace,
			cmd: sh(`i=0; while :; do head -c 1000000 /dev/zero >f$i || exit 9; i=$((i+1)); done`),
		},
		{
			name: "many files in shared memory", says: "No space left", only: Namespace,
			cmd: sh(`i=0; while :; do head -c 1000000 /dev/zero >/dev/shm/f$i || exit 9; i=$((i+1)); done`),
		},
		{
			name: "many empty files", is: ErrDisk, only: Process,
			cmd: py("i=0\nwhile True:\n  open(f'f{i}','w').close(); i+=1"),
		},
		{name: "directories in directories", is: ErrDisk, only: Process, cmd: py("import os\nwhile True: os.mkdir('d'); os.chdir('d')")},
		{name: "endless output", cmd: sh(`exec cat /dev/zero`), is: ErrOutput},
		{name: "50 MB to stderr", cmd: sh(`head -c 50000000 /dev/zero | tr '\0' x >&2; printf end >&2; exit 7`), says: "xend"},
		{name: "ignores SIGTERM", cmd: sh(`trap '' TERM; sleep 600 & while :; do wait; done`), is: ErrTimeout},
		{name: "leaves a daemon", cmd: sh(`setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 0`), is: ErrLeftBehind},
		{name: "leaves one that hides", is: ErrLeftBehind, cmd: py(hidingDaemon)},
		{name: "leaves one that is another process at each moment", is: ErrLeftBehind, cmd: py(hoppingDaemon), root: true},
		{name: "leaves one whose first thread has ended", is: ErrLeftBehind, cmd: py(headlessDaemon)},
		{name: "leaves one that holds the output", cmd: sh(`setsid sleep 600 & exit 0`), is: ErrLeftBehind},
		{name: "kills all that it may", cmd: sh(`kill -9 -1; exit 3`), says: "exit status 3", root: true},
		{name: "too many descriptors", cmd: py("import os\nwhile True: os.dup(0)"), says: "Too many open files"},
	}
	t.Parallel()
	onLevels(t, plain, func(t *testing.T, b *Box) {
		for _, c := range cases {
			if c.only != "" && c.only != b.cfg.Level {
				continue
			}
			if c.root && os.Geteuid() != 0 && b.cfg.Level == Process {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if os.Geteuid() == 0 { // else a fork bomb takes the processes of the others
					t.Parallel()
				}
				limits := small
				switch { // a loaded machine takes its time
				case errors.Is(c.is, ErrCPU):
					limits.CPU = time.Second
					limits.Timeout = 50 * time.Second
				case errors.Is(c.is, ErrTimeout):
					limits.Timeout = time.Second
					limits.CPU = 10 * time.Second
				case errors.Is(c.is, ErrDisk):
					limits.CPU = 40 * time.Second
					limits.Timeout = 50 * time.Second
					limits.Disk = 1 << 20 // many small entries are slow to make, to measure and to remove
				default:
					limits.Timeout = 50 * time.Second
				}
				hostileBeside(t, b, limits, c.cmd, c.is, c.says)
			})
		}
	})
}

// A process that is about to end when its command has does not make it fail.
func TestLastOnesMayEnd(t *testing.T) {
	onLevels(t, plain, func(t *testing.T, b *Box) {
		var err error
		for range 20 { // on a loaded machine a moment may be too short
			if _, err = b.Run(limited(t), sh(`(setsid sleep 0.02 >/dev/null 2>&1 &) ; exit 0`)); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// hidingDaemon forks twice, leaves its session, wipes its environment and makes
// itself unreadable.
const hidingDaemon = `
import os, ctypes, time
if os.fork() == 0:
  os.setsid()
  if os.fork() == 0:
    for fd in (0, 1, 2): os.close(fd)
    os.execve("/usr/bin/python3", ["[kworker/0:1]", "-Ic",
      "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(600)"], {})
  os._exit(0)
os.wait()
time.sleep(0.5)
`

// hoppingDaemon is never the process that it was a moment ago.
const hoppingDaemon = `
import os
if os.fork() == 0:
  os.setsid()
  for fd in (0, 1, 2): os.close(fd)
  while True:
    try:
      if os.fork() != 0: os._exit(0)
    except OSError: pass
`

// headlessDaemon continues in its second thread only.
const headlessDaemon = `
import os, time
if os.fork() == 0:
  os.setsid()
  for fd in (0, 1, 2): os.close(fd)
  exec("""` + sleepsHeadless + `""")
time.sleep(0.5)
`

func hostileBeside(t *testing.T, b *Box, limits Limits, cmd Command, is error, says string) {
	t.Helper()
	ctx := limited(t)
	neighbour := make(chan error, 1)
	go func() {
		res, err := b.Run(ctx, sh(`sleep 0.5; echo fine`))
		if err == nil && string(res.Stdout) != "fine\n" {
			err = errors.New("the neighbour said " + string(res.Stdout))
		}
		neighbour <- err
	}()
	hostile := &Box{cfg: b.cfg, platform: b.platform} // the same, with limits of its own
	hostile.cfg.Limits, _ = limits.withDefaults()
	began := time.Now()
	res, err := hostile.Run(ctx, cmd)
	t.Logf("after %v: %v; %.200s", time.Since(began).Round(time.Millisecond), err, res.Log)
	if err == nil || is != nil && !errors.Is(err, is) || !strings.Contains(err.Error()+res.Log, says) {
		t.Errorf("got %v; log %s", err, res.Log)
	}
	if len(res.Log) > 5<<10 || len(res.Stdout) > 512<<10 {
		t.Errorf("%d bytes of log, %d of output were kept", len(res.Log), len(res.Stdout))
	}
	bomb := strings.Contains(cmd.Args[2], "fork") || strings.Contains(cmd.Args[2], "bomb")
	if err := <-neighbour; err != nil && (os.Geteuid() == 0 || !bomb) { // see the package comment
		t.Errorf("the neighbour: %v", err)
	}
}
