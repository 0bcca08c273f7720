package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Of several workers that share a directory each removes what killed ones have left,
// and nothing else.
func TestLeftPlacesAreRemoved(t *testing.T) {
	parent := t.TempDir()
	for _, dir := range []string{"osqueue-commands-1/job-2/deep", "osqueue-commands-3", "osqueue-commands-mine", "osqueue-commands-"} {
		if err := os.MkdirAll(filepath.Join(parent, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(parent, "osqueue-commands-1/job-2/deep"), 0); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(parent, "osqueue-commands-4")); err != nil {
		t.Fatal(err)
	}
	first, err := openPlace(parent)
	if err != nil {
		t.Fatal(err)
	}
	second, err := openPlace(parent)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"osqueue-commands-", "osqueue-commands-mine", filepath.Base(first.path), filepath.Base(second.path)}
	slices.Sort(want)
	if got := dirsIn(parent); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if info, err := os.Stat(first.path); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("commands could lock it: %v, %v", info.Mode(), err)
	}
	for _, p := range []*place{first, second} {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
	if got := dirsIn(parent); !slices.Equal(got, []string{"osqueue-commands-", "osqueue-commands-mine"}) {
		t.Errorf("after the end there are %q", got)
	}
	if _, err := os.Stat(elsewhere); err != nil {
		t.Errorf("what a link leads to: %v", err)
	}
}

// If a cleaner removes the directory of an idle worker, the worker makes another one.
func TestPlaceIsMadeAgain(t *testing.T) {
	p, err := openPlace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	before := p.path
	if err := os.Remove(before); err != nil {
		t.Fatal(err)
	}
	a, err := p.newDir(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.newDir(nil)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(a) != p.path || filepath.Dir(b) != p.path || a == b || p.path == before {
		t.Errorf("%s and %s in %s", a, b, p.path)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if left := dirsIn(p.parent); len(left) > 0 {
		t.Errorf("%q remain", left)
	}
}

// Where no place can be made, no directory of the system is taken instead.
func TestPlaceThatCannotBeMadeAgain(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := openPlace(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if dir, err := p.newDir(nil); err == nil {
			t.Errorf("it is %s", dir)
		}
	}
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	if dir, err := p.newDir(nil); err != nil || filepath.Dir(filepath.Dir(dir)) != parent {
		t.Errorf("%s, %v", dir, err)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// A lock that another machine holds is not seen: there nothing counts as left.
func TestPlacesOfOtherMachines(t *testing.T) {
	for number, want := range map[uint32]bool{
		unix.EXT4_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true,
		unix.NFS_SUPER_MAGIC: false, unix.V9FS_MAGIC: false, unix.FUSE_SUPER_MAGIC: false, 0x0bd00bd0: false,
	} {
		if got := locksAreSeen(number); got != want {
			t.Errorf("%#x: %v", number, got)
		}
	}
}
