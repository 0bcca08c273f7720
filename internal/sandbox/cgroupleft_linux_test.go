package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What of the control groups is plain directories and files can be tested
// anywhere.

func TestOnlyGroupsThatNobodyHoldsAreRemoved(t *testing.T) {
	own := t.TempDir()
	for _, dir := range []string{"osqueue-1-left/a", "osqueue-1-left/b", "osqueue-2-empty", "osqueue-worker-3-left", "other/a", "osqueue-prod/a", "osqueue-worker-4-living/osqueue-5-nested/a"} {
		if err := os.MkdirAll(filepath.Join(own, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	living, held, err := makeHeldGroup(own)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
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
