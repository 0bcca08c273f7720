package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Of several workers that share a directory each removes what killed ones have left,
// and nothing else.
func TestLeftDirectoriesAreRemoved(t *testing.T) {
	parent := t.TempDir()
	for _, dir := range []string{"osqueue-job-1/job-2/deep", "osqueue-job-3", "osqueue-job-mine", "osqueue-job-"} {
		check(t, os.MkdirAll(filepath.Join(parent, dir), 0o755))
	}
	check(t, os.Chmod(filepath.Join(parent, "osqueue-job-1/job-2/deep"), 0))
	elsewhere := t.TempDir()
	check(t, os.Symlink(elsewhere, filepath.Join(parent, "osqueue-job-4")))
	want := []string{"osqueue-job-", "osqueue-job-mine"}
	if os.Geteuid() == 0 { // of a user who is neither the worker's nor one of its range
		want = append(want, "osqueue-job-5")
		check(t, errors.Join(os.Mkdir(filepath.Join(parent, "osqueue-job-5"), 0o755), os.Chown(filepath.Join(parent, "osqueue-job-5"), 12345, 0)))
	}
	used, lock, err := newDir(parent, nil)
	check(t, err)
	want = append(want, filepath.Base(used))
	slices.Sort(want)
	for range 2 {
		removeLeftDirs(parent, defaultUIDs)
		if got := dirsIn(parent); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	lock.Close()
	removeLeftDirs(parent, defaultUIDs)
	want = slices.DeleteFunc(want, func(name string) bool { return name == filepath.Base(used) })
	if got := dirsIn(parent); !slices.Equal(got, want) {
		t.Errorf("after the end there are %q", got)
	}
	if _, err := os.Stat(elsewhere); err != nil {
		t.Errorf("what a link leads to: %v", err)
	}
}

// A directory that cannot be made or reached is an error at the start, which says what to do.
func TestDirectoryOutOfReach(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if dir, _, err := newDir(missing, nil); err == nil {
		t.Errorf("it is %s", dir)
	}
	if os.Geteuid() != 0 {
		t.Skip("commands run as the worker's own user")
	}
	closed := t.TempDir()
	check(t, os.Chmod(closed, 0o700))
	b, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: closed, UIDs: UIDRange{First: 1_910_000_000, Count: 64}})
	if err == nil {
		t.Fatal(b.Close(), "it works")
	}
	for _, want := range []string{"permission denied", "to pass all directories on the way to " + closed, "--sandbox-dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
}

// A lock that another machine holds is not seen: there nothing counts as left.
func TestDirectoriesOfOtherMachines(t *testing.T) {
	for number, want := range map[uint32]bool{
		unix.EXT4_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true,
		unix.NFS_SUPER_MAGIC: false, unix.V9FS_MAGIC: false, unix.FUSE_SUPER_MAGIC: false, 0x0bd00bd0: false,
	} {
		if got := locksAreSeen(number); got != want {
			t.Errorf("%#x: %v", number, got)
		}
	}
}
