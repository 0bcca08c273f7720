package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// span is a run of log entries of one term.
type span struct{ term, from, to uint64 }

func logOf(t *testing.T, spans ...span) raft.LogStore {
	t.Helper()
	logs := raft.NewInmemStore()
	for _, s := range spans {
		for i := s.from; i <= s.to; i++ {
			if err := logs.StoreLog(&raft.Log{Index: i, Term: s.term, Type: raft.LogNoop}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return logs
}

func TestContinues(t *testing.T) {
	for _, c := range []struct {
		name       string
		log        []span
		from, lost point
		want       string // part of the error; "" for success
	}{
		{"log joins", []span{{1, 6, 20}}, point{1, 5}, point{1, 10}, ""},
		{"log ends at the lost one", []span{{1, 6, 10}}, point{1, 5}, point{1, 10}, ""},
		{"log ends before", []span{{1, 6, 9}}, point{1, 5}, point{1, 10}, "does not reach 1-10"},
		{"log empty", nil, point{1, 5}, point{1, 10}, "does not reach 1-10"},
		{"log cut off", []span{{1, 7, 20}}, point{1, 5}, point{1, 10}, "lacks entry 6"},
		{"hole in the log", []span{{1, 6, 7}, {1, 10, 12}}, point{1, 5}, point{1, 10}, "lacks entry 8"},
		{"log was going to be overwritten", []span{{1, 6, 20}}, point{1, 5}, point{2, 10}, "does not reach 2-10"},
	} {
		err := continues(logOf(t, c.log...), c.from, c.lost)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestPrepareFallsBackOnTheDisk keeps the log after the older snapshot.
func TestPrepareFallsBackOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	old, damaged := take(t, s, 1, 10), take(t, s, 1, 20)
	flip(t, dir, localDir, damaged, stateFile)
	s = newStore(t, dir)
	if err := s.Prepare(logOf(t, span{1, 11, 30})); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, old)
	if aside := dirNames(t, dir, asideDir); len(aside) != 1 || !strings.HasPrefix(aside[0], damaged) {
		t.Errorf("set aside are %v", aside)
	}
}

// TestPrepareDoesNotStartWithLess checks that Prepare refuses a start at which raft would
// panic, or after which this node would miss confirmed entries.
func TestPrepareDoesNotStartWithLess(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	take(t, s, 1, 10)
	damaged := take(t, s, 1, 20)
	flip(t, dir, localDir, damaged, stateFile)
	s = newStore(t, dir)
	for range 2 {
		err := s.Prepare(logOf(t, span{1, 16, 30}))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) {
			t.Errorf("the error is %v", err)
		}
	}
	if names := dirNames(t, dir, localDir); len(names) != 2 {
		t.Errorf("the directory has %v", names)
	}
}

func TestPrepareOfANewNode(t *testing.T) {
	s := newStore(t, t.TempDir())
	if err := s.Prepare(logOf(t)); err != nil {
		t.Error(err)
	}
	if err := s.Prepare(logOf(t, span{1, 1, 10})); err != nil {
		t.Error(err)
	}
}

func TestPrepareExplainsRemovedSnapshots(t *testing.T) {
	dir := t.TempDir()
	id := take(t, newStore(t, dir), 1, 20)
	if err := os.RemoveAll(filepath.Join(dir, localDir, id)); err != nil {
		t.Fatal(err)
	}
	err := newStore(t, dir).Prepare(logOf(t, span{1, 16, 30}))
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error is %v", err)
	}
}

// TestPrepareLeavesNewerProgramsAlone simulates a downgrade.
func TestPrepareLeavesNewerProgramsAlone(t *testing.T) {
	dir := t.TempDir()
	id := take(t, newStore(t, dir), 1, 20)
	path := filepath.Join(dir, localDir, id, recordFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), `"format": 1`, `"format": 2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newStore(t, dir).Prepare(logOf(t)); !errors.Is(err, errNewer) {
		t.Errorf("the error is %v", err)
	}
	if names := dirNames(t, dir, localDir); len(names) != 1 {
		t.Errorf("the directory has %v", names)
	}
}
