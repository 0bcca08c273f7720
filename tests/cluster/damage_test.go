package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSnapshotsAreSorted(t *testing.T) {
	n := &Node{process: process{Dir: t.TempDir()}}
	for _, name := range []string{"2-9-3", "2-100-1", "3-20-2", "3-200-9.tmp"} {
		dir := filepath.Join(n.Dir, "data", "snapshots", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "state.bin"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := n.Snapshots()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(filepath.Dir(p)))
	}
	if got, want := strings.Join(names, " "), "2-100-1 3-20-2 2-9-3"; got != want {
		t.Errorf("the snapshots are %s, want %s", got, want)
	}
}
