package snapshot

import (
	"maps"
	"path/filepath"
	"testing"
)

// All reads of the disk are watched, because raft reads snapshots on its main goroutine.
func TestReadsOfTheDiskAreWatched(t *testing.T) {
	seen := make(map[string]int) // bytes, at most
	s := newStore(t, t.TempDir())
	s.watch = func(what string, bytes int, fn func() error) error {
		seen[what] = max(seen[what], bytes)
		return fn()
	}
	id := take(t, s, 1, 10)
	clear(seen)
	wantIDs(t, s, id)
	if want := map[string]int{"list the snapshots": 0, "read the description of a snapshot": 0}; !maps.Equal(seen, want) {
		t.Errorf("List: %v", seen)
	}
	clear(seen)
	wantRead(t, s, id, 10)
	if seen["read a snapshot"] == 0 || len(seen) != 2 {
		t.Errorf("Open and Read: %v", seen)
	}
}

func TestDirectoryThatCannotBeOpened(t *testing.T) {
	if _, err := New(Options{Dir: filepath.Join(t.TempDir(), "x", "\x00")}); err == nil {
		t.Error("it is accepted")
	}
}
