package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
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
		ours       bool
		want       string // part of the error; "" for success
	}{
		{"the same, empty log", nil, point{1, 10}, point{1, 10}, false, ""},
		{"the same, log behind it", []span{{1, 8, 20}}, point{1, 10}, point{1, 10}, false, ""},
		{"the same, log before it", []span{{1, 1, 9}}, point{1, 10}, point{1, 10}, false, ""},
		{"the same, log with a hole", []span{{1, 12, 20}}, point{1, 10}, point{1, 10}, false, "lacks entry 11"},
		{"older, ours, log joins", []span{{1, 6, 20}}, point{1, 5}, point{1, 10}, true, ""},
		{"older, ours, log ends at the lost one", []span{{1, 6, 10}}, point{1, 5}, point{1, 10}, true, ""},
		{"older, ours, log ends before", []span{{1, 6, 9}}, point{1, 5}, point{1, 10}, true, "does not reach 1-10"},
		{"older, ours, log empty", nil, point{1, 5}, point{1, 10}, true, "does not reach 1-10"},
		{"older, ours, log cut off", []span{{1, 7, 20}}, point{1, 5}, point{1, 10}, true, "lacks entry 6"},
		{"older, ours, hole in the log", []span{{1, 6, 7}, {1, 10, 12}}, point{1, 5}, point{1, 10}, true, "lacks entry 8"},
		{"older, ours, log was going to be overwritten", []span{{1, 6, 20}}, point{1, 5}, point{2, 10}, true, "does not reach 2-10"},
		{"older, of the bucket, in the log", []span{{1, 5, 20}}, point{1, 5}, point{1, 10}, false, ""},
		{"older, of the bucket, before the log", []span{{1, 6, 20}}, point{1, 5}, point{1, 10}, false, "does not have the entry 1-5"},
		{"older, of the bucket, of a lost history", []span{{1, 4, 4}, {2, 5, 20}}, point{1, 5}, point{2, 10}, false, "does not have the entry 1-5"},
		{"newer, in the log", []span{{1, 8, 20}}, point{1, 15}, point{1, 10}, false, ""},
		{"newer, beyond the log", []span{{1, 8, 20}}, point{1, 25}, point{1, 10}, false, "does not have the entry 1-25"},
		{"newer, of a lost history", []span{{1, 8, 12}, {3, 13, 20}}, point{2, 15}, point{1, 10}, false, "does not have the entry 2-15"},
	} {
		err := continues(logOf(t, c.log...), c.from, c.lost, c.ours)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestPrepareFallsBackOnTheDisk keeps the log after the older snapshot.
func TestPrepareFallsBackOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, nil)
	old, damaged := take(t, s, 1, 10), take(t, s, 1, 20)
	flip(t, dir, localDir, damaged, stateFile)
	s = newStore(t, dir, nil)
	if err := s.Prepare(t.Context(), logOf(t, span{1, 11, 30})); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, old)
	if aside := dirNames(t, dir, asideDir); len(aside) != 1 || !strings.HasPrefix(aside[0], damaged) {
		t.Errorf("set aside are %v", aside)
	}
}

// TestPrepareReplacesFromTheBucket has a log without the entries after the older snapshot.
func TestPrepareReplacesFromTheBucket(t *testing.T) {
	for _, file := range []string{stateFile, metaFile, recordFile} {
		for _, uploaded := range []uint64{17, 20, 25} {
			dir, b := t.TempDir(), newBucket(t)
			other := newStore(t, t.TempDir(), b, func(o *Options) { o.Node = "n2" })
			take(t, other, 1, uploaded)
			put(t, other)
			s := newStore(t, dir, b)
			old, damaged := take(t, s, 1, 10), take(t, s, 1, 20)
			flip(t, dir, localDir, damaged, file)

			s = newStore(t, dir, b)
			if err := s.Prepare(t.Context(), logOf(t, span{1, 16, 30})); err != nil {
				t.Fatalf("%s, %d: %v", file, uploaded, err)
			}
			got := ids(t, s)
			if len(got) == 0 || len(got) > 2 || len(got) == 2 && got[1] != old || got[0] == damaged {
				t.Fatalf("%s, %d: the list is %v", file, uploaded, got)
			}
			wantRead(t, s, got[0], uploaded)
			if st := s.Status(); st.Local.Index != uploaded || st.Damaged != "" {
				t.Errorf("the status is %+v", st)
			}
			if aside := dirNames(t, dir, asideDir); len(aside) != 1 || !strings.HasPrefix(aside[0], damaged) {
				t.Errorf("set aside are %v", aside)
			}
			if err := newStore(t, dir, nil).Prepare(t.Context(), logOf(t, span{1, 16, 30})); err != nil {
				t.Errorf("the next start: %v", err)
			}
		}
	}
}

// TestPrepareDoesNotStartWithLess checks that Prepare refuses a start at which raft would
// panic, or after which this node would miss confirmed entries.
func TestPrepareDoesNotStartWithLess(t *testing.T) {
	dir, b := t.TempDir(), fault.New(newBucket(t), 1)
	s := newStore(t, dir, b)
	take(t, s, 1, 10)
	put(t, s)
	damaged := take(t, s, 1, 20)
	flip(t, dir, localDir, damaged, stateFile)
	s = newStore(t, dir, b)
	for range 2 {
		err := s.Prepare(t.Context(), logOf(t, span{1, 16, 30}))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) {
			t.Errorf("the error is %v", err)
		}
	}
	if names := dirNames(t, dir, localDir); len(names) != 2 {
		t.Errorf("the directory has %v", names)
	}
	// Prepare is repeated after an outage of the bucket.
	away := b.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpList}})
	if err := s.Prepare(t.Context(), logOf(t, span{1, 16, 30})); !errors.Is(err, fault.ErrInjected) {
		t.Errorf("the error does not tell of the outage: %v", err)
	}
	away.Stop()
	other := newStore(t, t.TempDir(), b, func(o *Options) { o.Slack = 1 })
	take(t, other, 1, 20)
	put(t, other)
	if err := s.Prepare(t.Context(), logOf(t, span{1, 16, 30})); err != nil {
		t.Error(err)
	}
}

// TestPrepareSkipsDamagedUploads has a newer, damaged upload in the bucket.
func TestPrepareSkipsDamagedUploads(t *testing.T) {
	dir, b := t.TempDir(), newBucket(t)
	other := newStore(t, t.TempDir(), b, func(o *Options) { o.Slack = 1 })
	take(t, other, 1, 25)
	put(t, other)
	spoil(t, b, ".part")
	s := newStore(t, dir, b, func(o *Options) { o.Node, o.Slack = "n2", 1 })
	damaged := take(t, s, 1, 27)
	put(t, s)
	flip(t, dir, localDir, damaged, stateFile)
	s = newStore(t, dir, b)
	if err := s.Prepare(t.Context(), logOf(t, span{1, 20, 30})); err != nil {
		t.Fatal(err)
	}
	wantRead(t, s, ids(t, s)[0], 27)
}

func TestPrepareOfANewNode(t *testing.T) {
	s := newStore(t, t.TempDir(), nil)
	if err := s.Prepare(t.Context(), logOf(t)); err != nil {
		t.Error(err)
	}
	if err := s.Prepare(t.Context(), logOf(t, span{1, 1, 10})); err != nil {
		t.Error(err)
	}
}

func TestPrepareExplainsRemovedSnapshots(t *testing.T) {
	dir := t.TempDir()
	id := take(t, newStore(t, dir, nil), 1, 20)
	if err := os.RemoveAll(filepath.Join(dir, localDir, id)); err != nil {
		t.Fatal(err)
	}
	err := newStore(t, dir, nil).Prepare(t.Context(), logOf(t, span{1, 16, 30}))
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error is %v", err)
	}
}

// TestPrepareLeavesNewerProgramsAlone simulates a downgrade.
func TestPrepareLeavesNewerProgramsAlone(t *testing.T) {
	dir := t.TempDir()
	id := take(t, newStore(t, dir, nil), 1, 20)
	path := filepath.Join(dir, localDir, id, recordFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), `"format": 1`, `"format": 2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newStore(t, dir, nil).Prepare(t.Context(), logOf(t)); !errors.Is(err, errNewer) {
		t.Errorf("the error is %v", err)
	}
	if names := dirNames(t, dir, localDir); len(names) != 1 {
		t.Errorf("the directory has %v", names)
	}
}
