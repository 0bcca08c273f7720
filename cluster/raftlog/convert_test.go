package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"osqueue/cluster/raftlog/segment"
)

// TestConversion opens a log as each kind in turn. Nothing changes but the form.
func TestConversion(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		fill(t, l, 10)
		var more []*raft.Log
		for i := uint64(11); i <= 12000; i++ { // more than one batch
			more = append(more, entry(i))
		}
		must(t, l.StoreLogs(more), l.DeleteRange(1, 10), l.Close())
		for range 2 {
			for _, k := range kinds {
				l := mustOpen(t, k, dir)
				first, err := l.FirstIndex()
				must(t, err)
				last, err := l.LastIndex()
				// A segment log may have removed entries back after a crash.
				if must(t, err); first != 1 && first != 11 || last != 12000 {
					t.Fatalf("it has the entries %d to %d", first, last)
				}
				for i := first; i <= last; i++ {
					must(t, sameEntry(l, i))
				}
				must(t, l.Close())
			}
		}
	})
}

// TestConversionOfAHole converts a raft-boltdb with a hole. A snapshot has what is before
// the hole.
func TestConversionOfAHole(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, kinds[0], dir)
	must(t, l.StoreLogs([]*raft.Log{entry(1), entry(2), entry(4), entry(5)}), l.Close())
	l = mustOpen(t, kinds[1], dir)
	first, err := l.FirstIndex()
	if must(t, err); first != 4 {
		t.Fatalf("the first entry is %d, want 4", first)
	}
	must(t, sameEntry(l, 4), sameEntry(l, 5), l.Close())
}

var errCrash = errors.New("crash")

// TestCrashesOfAConversion ends a conversion before each of its changes. The next start, as
// either kind, must find everything, and leave nothing behind.
func TestCrashesOfAConversion(t *testing.T) {
	each(t, func(t *testing.T, from kind, dir string) {
		l := mustOpen(t, from, dir)
		fill(t, l, 30)
		must(t, l.Close())
		for _, next := range kinds {
			points := 0
			for ; ; points++ {
				crashed := filepath.Join(t.TempDir(), "data")
				must(t, os.CopyFS(crashed, os.DirFS(dir)))
				at, err := convertUntil(crashed, from.name, points)
				if err == nil {
					break
				}
				if !errors.Is(err, errCrash) {
					t.Fatalf("%s: %v", at, err)
				}
				l, err := next.open(crashed)
				if err != nil {
					t.Fatalf("%s, then start as %s: %v", at, next.name, err)
				}
				if err := asFilled(l, 30); err != nil {
					t.Fatalf("%s, then start as %s: %v", at, next.name, err)
				}
				must(t, l.StoreLog(entry(31)), l.Close())
				onlyHas(t, crashed, next.name)
				l = mustOpen(t, from, crashed)
				must(t, asFilled(l, 31), l.Close())
			}
			if points < 6 {
				t.Errorf("there are only %d points", points)
			}
		}
	})
}

// convertUntil opens the log as the other kind, and ends before the change with the given
// number.
func convertUntil(dir, from string, points int) (at string, err error) {
	d := newLayout(dir)
	d.before = func(change string) error {
		if points--; points < 0 {
			at = change
			return errCrash
		}
		return nil
	}
	var l *Log
	if from == "bolt" {
		l, err = d.openSegments(segment.Options{})
	} else {
		l, err = d.openBolt()
	}
	if err == nil {
		err = l.Close()
	}
	return at, err
}

// onlyHas checks that a data directory has the files of one kind.
func onlyHas(t *testing.T, dir, kind string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	want := "raft raft.db"
	if kind == "bolt" {
		want = "raft.db"
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("as %s it has the files %q, want %q", kind, got, want)
	}
}

// TestOlderReleasesRefuseSegments has bolt open the marker as releases without segments do.
func TestOlderReleasesRefuseSegments(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, kinds[1], dir)
	fill(t, l, 1)
	must(t, l.Close())
	db, err := bbolt.Open(filepath.Join(dir, boltName), 0o600, boltOptions(false))
	if err == nil {
		t.Error("an older release would vote with an empty log", db.Close())
	}
	if to, err := os.Readlink(filepath.Join(dir, boltName)); err != nil || !strings.Contains(to, "--raft-log-bolt") {
		t.Errorf("raft.db does not say what to do: %q (%v)", to, err)
	}
}

// TestConversionOfADamagedLog checks that damage is not converted away.
func TestConversionOfADamagedLog(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, kinds[0], dir)
	fill(t, l, 3)
	must(t, l.store.SetUint64([]byte(keyTerm), 3), l.Close())
	if _, err := OpenSegments(dir, nil); !errors.Is(err, ErrDamaged) {
		t.Fatalf("it opens: %v", err)
	}
}

// TestMissingParts removes parts of a log in segments. If the whole log is gone, it is
// created empty, and the caller compares it with what the node has confirmed.
func TestMissingParts(t *testing.T) {
	for name, c := range map[string]struct {
		remove  []string
		refused bool
	}{
		"votes":      {[]string{"raft/votes.db"}, true},
		"entries":    {[]string{"raft/log"}, true},
		"start":      {[]string{"raft/log/meta"}, true},
		"all":        {[]string{"raft"}, false},
		"and marker": {[]string{"raft", "raft.db"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range kinds {
				dir := t.TempDir()
				l := mustOpen(t, kinds[1], dir)
				fill(t, l, 3)
				must(t, l.Close())
				for _, r := range c.remove {
					must(t, os.RemoveAll(filepath.Join(dir, r)))
				}
				l, err := k.open(dir)
				if c.refused != errors.Is(err, ErrDamaged) || !c.refused && err != nil {
					t.Fatalf("as %s: %v", k.name, err)
				}
				if c.refused {
					continue
				}
				if last, err := l.LastIndex(); last != 0 || err != nil {
					t.Errorf("as %s the last entry is %d: %v", k.name, last, err)
				}
				must(t, l.Close())
			}
		})
	}
}

// TestTheMarkerIsLost opens a copy of a data directory that has no symbolic links.
func TestTheMarkerIsLost(t *testing.T) {
	for _, k := range kinds {
		dir := t.TempDir()
		l := mustOpen(t, kinds[1], dir)
		fill(t, l, 3)
		must(t, l.Close(), os.Remove(filepath.Join(dir, boltName)))
		l = mustOpen(t, k, dir)
		holds(t, l, 3)
		must(t, l.Close())
		onlyHas(t, dir, k.name)
	}
}

func TestLogsOfRaftWALAreRefused(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		must(t, os.Mkdir(filepath.Join(dir, walName), 0o700))
		if _, err := k.open(dir); err == nil || !strings.Contains(err.Error(), "delete its data directory") {
			t.Fatal(err)
		}
	})
}

func TestTwoProcessesOnOneLog(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		for _, other := range kinds {
			if other.name == k.name {
				continue // the other kind also opens this one, to convert it
			}
			if _, err := other.open(dir); err == nil {
				t.Fatalf("it opens a second time, as %s", other.name)
			}
		}
		must(t, l.Close())
	})
}
