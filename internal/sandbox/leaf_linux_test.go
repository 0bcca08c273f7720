package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// ownGroup moves the test to a group of version 2 of its own, and back at the
// end.
func ownGroup(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may move to another control group")
	}
	for _, root := range cgroupRoots {
		own := filepath.Join(root, "osqueue-test-"+strconv.Itoa(os.Getpid()))
		if _, err := members(root); err != nil || os.Mkdir(own, 0o755) != nil {
			continue
		}
		_ = delegate(root) // fails on machines without controllers; the test works without them
		enter(t, own)
		t.Cleanup(func() {
			enter(t, root)
			leaves, _ := filepath.Glob(own + "/osqueue-*")
			for _, group := range append(leaves, own) {
				if err := removeGroup(group); err != nil {
					t.Error(err)
				}
			}
		})
		return own
	}
	t.Skip("there are no control groups of version 2 to be made")
	return ""
}

func enter(t *testing.T, group string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0))
}

// isIn says whether the test is in a group.
func isIn(t *testing.T, group string) bool {
	t.Helper()
	pids, err := members(group)
	check(t, err)
	for _, pid := range pids {
		if pid == os.Getpid() {
			return true
		}
	}
	return false
}

// sleeper is a child of the test, until its end.
func sleeper(t *testing.T) (pid int) {
	t.Helper()
	child := exec.Command("sleep", "60")
	check(t, child.Start())
	t.Cleanup(func() { end(child) })
	return child.Process.Pid
}

// A worker that is alone in its group goes to a leaf, and its boxes make their groups in the group.
func TestWorkerGoesToALeaf(t *testing.T) {
	own := ownGroup(t)
	sleeper(t)
	leaf, err := enterLeaf(own, os.Getpid())
	check(t, err)
	if pids, err := members(own); err != nil || len(pids) > 0 || !isIn(t, leaf) {
		t.Errorf("in the group remain %v, %v", pids, err)
	}
	h := &home{dir: own}
	if dir, _ := h.find(leaf); dir != own {
		t.Errorf("another box makes its groups below %s", dir)
	}
}

// With others in its group a worker stays where it is, and so do they. Here the
// worker is a child, and the other the test itself.
func TestWorkerStaysWithOthers(t *testing.T) {
	own := ownGroup(t)
	child := sleeper(t)
	if _, err := enterLeaf(own, child); !errors.Is(err, errNotAlone) {
		t.Errorf("got %v", err)
	}
	if !isIn(t, own) {
		t.Error("the other was moved")
	}
	if left, err := filepath.Glob(own + "/osqueue-*"); err != nil || len(left) > 0 {
		t.Errorf("%v remain; %v", left, err)
	}
}

// Where the machine has the controllers, a box of a worker that is alone in its
// group bounds memory and processes.
func TestDelegatedGroupBounds(t *testing.T) {
	needBwrap(t)
	own := ownGroup(t)
	if have, err := words(filepath.Join(own, "cgroup.controllers")); err != nil || !have["memory"] || !have["pids"] {
		if os.Getenv("OSQUEUE_TEST_CGROUPS") == "require" {
			t.Fatalf("OSQUEUE_TEST_CGROUPS=require, but there are only the controllers %v, %v", have, err)
		}
		t.Skip("the controllers of memory and pids are not on version 2 here")
	}
	before := everyHome
	everyHome = &home{}
	defer func() { everyHome = before }()
	for _, b := range []*Box{bench(t, Namespace, small), bench(t, Namespace, small)} {
		if says := b.Describe(); !strings.HasSuffix(says, ", control groups") {
			t.Error(says)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDescend(t *testing.T) {
	all := []proc{{pid: 1}, {pid: 5, ppid: 1}, {pid: 7, ppid: 5}, {pid: 8, ppid: 7}, {pid: 9, ppid: 1}, {pid: 20, ppid: 21}, {pid: 21, ppid: 20}}
	for _, c := range []struct {
		pids []int
		want bool
	}{
		{[]int{5}, true},
		{[]int{5, 8, 7}, true},
		{[]int{5, 9}, false},
		{[]int{5, 1}, false},
		{[]int{5, 0}, false},
		{[]int{5, 20}, false}, // read while the kernel reused a number
		{[]int{5, 77}, false}, // it has just ended, or is not shown
	} {
		if got := descend(c.pids, all, 5); got != c.want {
			t.Errorf("%v: got %v", c.pids, got)
		}
	}
}
