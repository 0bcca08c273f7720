package sandbox

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// The filter knows its calls on each architecture that has releases.
func TestFilterOfEachArchitecture(t *testing.T) {
	for _, name := range []string{"amd64", "arm64"} {
		info, err := arch.GetInfo(name)
		check(t, err)
		for _, call := range slices.Concat(refused, lasting, []string{"clone", "clone3", "ioctl", "socket"}) {
			if _, ok := info.SyscallNames[call]; !ok {
				t.Errorf("%s has no call %s", name, call)
			}
		}
	}
}

// A program that cannot be a helper makes no box: its tests or whatever else it does would
// run in place of the helper.
func TestProgramsThatCannotHelp(t *testing.T) {
	canHelp = false
	defer func() { canHelp = true }()
	if _, err := New(t.Context(), Config{Level: Process, Limits: small}); err == nil || !strings.Contains(err.Error(), "RunHelper") {
		t.Error(err)
	}
}

func TestHelperWithoutWorker(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0], helperCommand).CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 || !strings.Contains(string(out), "only a worker starts this command") {
		t.Errorf("%v, %s", err, out)
	}
}

// What prevents the start of a program is an error that says what.
func TestHelperFails(t *testing.T) {
	for _, level := range []Level{Process, Namespace} {
		b := bench(t, level, small)
		start := func(c Command, change func(*order)) error {
			open, err := b.open(t.Context())
			check(t, err)
			cmd, err := open.prepare("/bin/true", c)
			check(t, err)
			switch cell := open.(type) {
			case *confined:
				change(&cell.order)
			case *namespace:
				change(&cell.order)
			}
			return errors.Join(open.start(t.Context(), cmd), open.close())
		}
		if err := start(sh(""), func(o *order) { o.Program = "/usr/bin/no-program" }); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: no program: %v", level, err)
		}
		if err := start(sh("\x00"), func(*order) {}); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: a NUL: %v", level, err)
		}
		if err := start(sh(strings.Repeat("x", 1<<20)), func(*order) {}); !errors.Is(err, unix.E2BIG) {
			t.Errorf("%s: a long argument: %v", level, err)
		}
		if err := start(sh(""), func(o *order) { o.Guard.Refuse = []string{"no_call"} }); err == nil || !strings.Contains(err.Error(), "restrict the program: ") {
			t.Errorf("%s: no filter: %v", level, err)
		}
	}
}

// If bwrap or the helper ends too early, the command fails with what it wrote.
func TestHelperEndsEarly(t *testing.T) {
	b := bench(t, Namespace, small)
	dir := openDir(t)
	real := b.bwrap
	b.bwrap = dir + "/bwrap"
	check(t, os.WriteFile(b.bwrap, []byte("#!/bin/sh\necho no namespace >&2; exit 4\n"), 0o755))
	res, err := b.Run(limited(t), sh("true"))
	if !errors.Is(err, errNotStarted) || res.Exit != 4 || res.Log != "no namespace" {
		t.Errorf("%v, %+v", err, res)
	}
	b.bwrap = real
	output(t, b, sh("true"))
}

// Where the worker has stricter limits itself, they hold for its commands.
func TestLimitsOfTheWorker(t *testing.T) {
	var before, after unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_CORE, &before))
	check(t, setLimits([]rlimit{{unix.RLIMIT_CORE, math.MaxUint64, math.MaxUint64}}))
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &after); err != nil || after.Max != before.Max {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
}

// Behind the limits of processes and memory the helper gets no thread and no memory, so they come last.
func TestLimitsThatCanFailTheHelperComeLast(t *testing.T) {
	all := (&confined{box: &Box{cfg: Config{Limits: small}}}).limits()
	if n := len(all); all[n-2].Resource != unix.RLIMIT_NPROC || all[n-1].Resource != unix.RLIMIT_AS {
		t.Errorf("the order is %+v", all)
	}
}

// The CPU time of the helper is not taken from that of the program, not even a part of a second.
func TestCPUTimeOfTheHelperIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		user, system unix.Timeval
		want         int64
	}{
		{unix.Timeval{}, unix.Timeval{}, 0},
		{unix.Timeval{Usec: 1}, unix.Timeval{}, 1},
		{unix.Timeval{Usec: 900_000}, unix.Timeval{Usec: 900_000}, 2},
		{unix.Timeval{Sec: 1}, unix.Timeval{Sec: 2}, 3},
	} {
		if got := usedSeconds(unix.Rusage{Utime: c.user, Stime: c.system}); got != c.want {
			t.Errorf("%v and %v: %d s, want %d s", c.user, c.system, got, c.want)
		}
	}
}
