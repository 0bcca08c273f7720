package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osqueue/storage"
)

// dieEnv asks a child process to begin a write and to die at one step of it.
const dieEnv = "OSQUEUE_FILE_TEST_DIE"

var allSteps = []string{stepStaged, stepLocked, stepCardStaged, stepCardPlaced, stepRenamed, stepSynced}

// committedAt reports whether a write that ended at step has been applied.
func committedAt(step string) bool { return step == stepRenamed || step == stepSynced }

// dieIfAsked is called by TestMain in every process. In a child, it writes
// "new" under key "k" (by PutIfMatch, or by PutIfAbsent if there is no such
// object), and kills its own process at the step.
func dieIfAsked() {
	step, dir, ok := strings.Cut(os.Getenv(dieEnv), " ")
	if !ok {
		return
	}
	b, err := OpenDir(context.Background(), dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	b.at = func(s string) error {
		if s == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	o, err := b.Get(context.Background(), "k")
	if errors.Is(err, storage.ErrNotFound) {
		b.PutIfAbsent(context.Background(), "k", []byte("new"))
	} else {
		b.PutIfMatch(context.Background(), "k", []byte("new"), o.Version)
	}
	os.Exit(1) // not reached
}

func die(t *testing.T, step, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), dieEnv+"="+step+" "+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child did not die by its own hand: %v\n%s", err, out)
	}
}

// TestKilledAtEachStep kills writers at every step and checks that the object
// is the old version or a new one, and that life goes on.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range allSteps {
		t.Run("replace/"+step, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			v0 := b.PutIfAbsent(ctx, "k", []byte("older")).Version
			v1 := b.PutIfMatch(ctx, "k", []byte("old"), v0).Version
			die(t, step, b.root)
			o, err := b.Get(ctx, "k")
			switch {
			case err != nil:
				t.Fatal(err)
			case !committedAt(step) && (string(o.Data) != "old" || o.Version != v1):
				t.Fatalf("after the kill: %q %q, want old %q", o.Data, o.Version, v1)
			case committedAt(step) && (string(o.Data) != "new" || !isNewVersion(o.Version, v0, v1)):
				t.Fatalf("after the kill: %q %q, want new with a version of its own", o.Data, o.Version)
			}
			goesOn(t, b, o.Version)
		})
		t.Run("create/"+step, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			die(t, step, b.root)
			o, err := b.Get(ctx, "k")
			if !committedAt(step) {
				if !errors.Is(err, storage.ErrNotFound) {
					t.Fatalf("after the kill: %q, %v", o.Data, err)
				}
				w := b.PutIfAbsent(ctx, "k", []byte("new"))
				if w.Outcome != storage.Committed {
					t.Fatal(w)
				}
				o.Version = w.Version
			} else if err != nil || string(o.Data) != "new" || !isNewVersion(o.Version) {
				t.Fatalf("after the kill: %q %q, %v", o.Data, o.Version, err)
			}
			goesOn(t, b, o.Version)
		})
	}
}

// goesOn checks that v is the current version, and the only one that counts.
func goesOn(t *testing.T, b *Bucket, v storage.Version) {
	t.Helper()
	w := b.PutIfMatch(t.Context(), "k", []byte("next"), v)
	if w.Outcome != storage.Committed || !isNewVersion(w.Version, v) {
		t.Fatalf("write after the kill: %+v", w)
	}
	if w := b.PutIfMatch(t.Context(), "k", []byte("stale"), v); w.Outcome != storage.Conflict {
		t.Fatalf("stale write after the kill: %+v", w)
	}
}

func isNewVersion(v storage.Version, others ...storage.Version) bool {
	for _, o := range others {
		if v == o {
			return false
		}
	}
	return v != "" && !strings.HasPrefix(string(v), "x-")
}

// TestErrorAtEachStep lets each step fail, as a full or broken disk would.
func TestErrorAtEachStep(t *testing.T) {
	for _, step := range allSteps {
		t.Run(step, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
			b.at = func(s string) error {
				if s == step {
					return syscall.ENOSPC
				}
				return nil
			}
			w := b.PutIfMatch(ctx, "k", []byte("new"), v)
			if w.Outcome != storage.Unknown || !errors.Is(w.Err, syscall.ENOSPC) {
				t.Fatalf("write = %+v, want unknown and the disk's error", w)
			}
			b.at = nil
			o, err := b.Get(ctx, "k")
			if want := map[bool]string{false: "old", true: "new"}[committedAt(step)]; err != nil || string(o.Data) != want {
				t.Fatalf("after the error: %q, %v, want %q", o.Data, err, want)
			}
			if !committedAt(step) && o.Version != v {
				t.Fatalf("after the error the version is %q, was %q", o.Version, v)
			}
			goesOn(t, b, o.Version)
			if left, err := os.ReadDir(b.temp); err != nil || len(left) != 0 {
				t.Errorf("the failed write left %d files in tmp, %v", len(left), err)
			}
		})
	}
}

// TestLockedOut checks that a lock held by a dead process is free, and one
// held by a living one is waited for.
func TestLockedOut(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	other := open(t, b.root)
	unlock, err := other.locks.lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20e6)
	defer cancel()
	w := b.PutIfAbsent(short, "k", []byte("1"))
	if w.Outcome != storage.Unknown || !errors.Is(w.Err, context.DeadlineExceeded) {
		t.Fatalf("write against a held lock = %+v", w)
	}
	done := make(chan storage.Write)
	go func() { done <- b.PutIfAbsent(ctx, "k", []byte("2")) }()
	if _, err := b.Get(ctx, "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("a held lock stops readers: %v", err)
	}
	unlock()
	if w := <-done; w.Outcome != storage.Committed {
		t.Fatalf("write after the lock was free = %+v", w)
	}
}

// TestLockFileReplaced removes a lock file under its holder's feet.
func TestLockFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := tryLockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := tryLockFile(path); !errors.Is(err, errLockHeld) {
		t.Fatalf("second lock: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if isStill(first, path) {
		t.Fatal("a removed lock file counts as held")
	}
	second, err := tryLockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if isStill(first, path) || !isStill(second, path) {
		t.Fatal("the holder of the removed file is taken for the one who holds the lock")
	}
}
