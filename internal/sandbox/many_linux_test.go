package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Many commands at once, and one after the other, that fail at once: each says
// how, and nothing is used up.
func TestManyThatEndAtOnce(t *testing.T) {
	for _, c := range []struct {
		level      Level
		n, usually int // each takes some milliseconds, and many above None
	}{{None, 10_000, 1000}, {Process, 10_000, 200}, {Namespace, 10_000, 50}} {
		t.Run(string(c.level), func(t *testing.T) {
			n := howMany(c.usually, c.n)
			b := bench(t, c.level, small)
			ignored := goleak.IgnoreCurrent()
			fds, procs := descriptors(t), children(t)
			began := time.Now()
			failAtOnce(t, b, n)
			t.Logf("%d commands, %v each", n, time.Since(began)/time.Duration(n))
			if after := descriptors(t); after > fds {
				t.Errorf("%d descriptors before, %d after", fds, after)
			}
			if after := children(t); after > procs {
				t.Errorf("%d children before, %d after", procs, after)
			}
			goleak.VerifyNone(t, ignored)
		})
	}
}

// howMany returns all where everything is to be checked: there is time for it.
func howMany(usually, all int) int {
	if os.Getenv("OSQUEUE_TEST_SANDBOX") == "require" {
		return all
	}
	return usually
}

// failAtOnce runs n commands, eight at a time.
func failAtOnce(t *testing.T, b *Box, n int) {
	t.Helper()
	const lanes = 8
	errs := make(chan error)
	for lane := range lanes {
		go func() {
			var err error
			for i := lane; i < n && err == nil; i += lanes {
				res, failed := b.Run(t.Context(), sh("exit 3"))
				var exit *exec.ExitError
				if !errors.As(failed, &exit) || failed.Error() != "exit status 3" || res.Exit != 3 {
					err = fmt.Errorf("command %d: got %w, exit %d, %s", i, failed, res.Exit, res.Log)
				}
			}
			errs <- err
		}()
	}
	for range lanes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(entries)
}

// children returns the number of children of this process, zombies included.
func children(t *testing.T) (n int) {
	t.Helper()
	all, err := processes()
	check(t, err)
	for _, p := range all {
		if p.ppid == os.Getpid() {
			n++
		}
	}
	return n
}
