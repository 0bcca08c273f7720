package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes directories in directories, with a file of a page in the last, and returns
// their first.
func deep(t *testing.T, levels int) string {
	t.Helper()
	first := t.TempDir()
	at, err := unix.Open(first, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range levels {
		check(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		unix.Close(at)
		at = next
	}
	defer unix.Close(at)
	fd, err := unix.Openat(at, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	check(t, err)
	defer unix.Close(fd)
	if _, err := unix.Write(fd, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	return first
}

// However deep directories are, few are open when they are removed.
func TestDeepDirectoriesAreRemoved(t *testing.T) {
	dir := deep(t, 2500) // whose path is longer than the kernel takes
	for name, mode := range map[string]os.FileMode{"d/d/d": 0, "d": 0o500} {
		check(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	elsewhere := filepath.Join(t.TempDir(), "kept")
	check(t, os.Mkdir(elsewhere, 0o751))
	check(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	var before unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	few := before
	few.Cur = uint64(descriptors(t) + 16)
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	err := removeDir(dir)
	if failed := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); failed != nil {
		t.Fatal(failed)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there yet: %v", err)
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("what a link leads to: %v, %v", info, err)
	}
}

// Many entries are more than one reading of a directory returns.
func TestWideDirectoriesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for i := range 2500 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		check(t, os.Mkdir(sub, 0o755))
		if i%100 > 0 {
			continue
		}
		for j := range 20 {
			check(t, os.WriteFile(filepath.Join(sub, fmt.Sprint(j)), nil, 0o644))
		}
	}
	if err := removeDir(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there yet: %v", err)
	}
}

// Deep directories count to the last one; those that are too deep end the command.
func TestDeepDirectoriesAreMeasured(t *testing.T) {
	const levels = 100
	dir := deep(t, levels)
	t.Cleanup(func() { _ = removeDir(dir) }) // the test's own removal takes it otherwise
	sum := int64(0)
	if err := overFull(dir, 1<<40, nil); err != nil {
		t.Error(err)
	}
	for _, path := range []string{".", strings.Repeat("d/", levels) + "f"} {
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(dir, path), &st))
		n := int64(1)
		if path == "." {
			n += levels // each takes as much
		}
		sum += n * (entryCost + st.Blocks*512)
	}
	if err := overFull(dir, sum, nil); err != nil {
		t.Errorf("%v, but it is the limit", err)
	}
	if err := overFull(dir, sum-1, nil); !errors.Is(err, ErrDisk) {
		t.Errorf("got %v", err)
	}
	tooDeep := deep(t, maxLevels+100)
	t.Cleanup(func() { _ = removeDir(tooDeep) })
	err := overFull(tooDeep, 1<<40, nil)
	if !errors.Is(err, ErrDisk) || !strings.HasSuffix(err.Error(), "directories more than 1024 levels deep") {
		t.Errorf("got %v", err)
	}
	done := make(chan struct{})
	close(done)
	if err := overFull(tooDeep, 1<<40, done); err != nil {
		t.Errorf("nobody asks any more, and it says %v", err)
	}
}
