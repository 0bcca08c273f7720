package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

func TestSnapshotsOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	wantIDs(t, s)
	a, b, c := take(t, s, 1, 10), take(t, s, 1, 9_000), take(t, s, 2, 10_000)
	wantIDs(t, s, c, b)
	wantRead(t, s, c, 10_000)
	wantRead(t, s, b, 9_000)
	if _, _, err := s.Open(a); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the third is still there: %v", err)
	}

	s = newStore(t, dir)
	wantIDs(t, s, c, b)
	wantRead(t, s, c, 10_000)
	if st := s.Status(); st.Local.Index != 10_000 || st.Local.Term != 2 || time.Since(st.Local.At) > time.Hour {
		t.Errorf("the status is %+v", st)
	}
}

// TestSinkEndsOnce ends sinks as raft does: both Persist and its caller end them.
func TestSinkEndsOnce(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	kept := begin(t, s, 1, 10)
	_, _ = kept.Write(content(10))
	for range 2 {
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Cancel(); err != nil {
		t.Fatal(err)
	}
	dropped := begin(t, s, 1, 20)
	_, _ = dropped.Write(content(20))
	for range 2 {
		if err := dropped.Cancel(); err != nil {
			t.Fatal(err)
		}
	}
	if err := dropped.Close(); err == nil {
		t.Error("a cancelled snapshot was closed")
	}
	wantIDs(t, s, kept.ID())
	if names := dirNames(t, dir, localDir); len(names) != 1 {
		t.Errorf("the directory has %v", names)
	}
}

// TestOvertakenSnapshotIsForgotten: a snapshot that two newer ones overtake is removed when
// it is closed, and leaves nothing in memory.
func TestOvertakenSnapshotIsForgotten(t *testing.T) {
	s := newStore(t, t.TempDir())
	late := begin(t, s, 1, 10)
	_, _ = late.Write(content(10))
	b, c := take(t, s, 1, 20), take(t, s, 1, 30)
	if err := late.Close(); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, c, b)
	if l := s; len(l.sure) != 2 || len(l.own) != 2 {
		t.Errorf("whole: %v, begun: %v; want the two that are kept", l.sure, l.own)
	}
}

// TestFailedCloseLeavesNothing removes the directory before the sink is closed.
func TestFailedCloseLeavesNothing(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, tmp string){
		"no place for the sum": func(t *testing.T, tmp string) { _ = os.Mkdir(filepath.Join(tmp, recordFile), 0o700) },
		"no place for the description": func(t *testing.T, tmp string) {
			_ = os.Remove(filepath.Join(tmp, metaFile))
			_ = os.Mkdir(filepath.Join(tmp, metaFile), 0o700)
		},
		"the name is taken": func(t *testing.T, tmp string) {
			_ = os.MkdirAll(filepath.Join(strings.TrimSuffix(tmp, tmpSuffix), "x"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			old := take(t, s, 1, 10)
			sink := begin(t, s, 1, 20)
			_, _ = sink.Write(content(20))
			tmp := filepath.Join(dir, localDir, sink.ID()+tmpSuffix)
			breakIt(t, tmp)
			if err := sink.Close(); err == nil {
				t.Fatal("Close succeeded")
			}
			if err := sink.Close(); err == nil {
				t.Error("the second Close hides the error of the first")
			}
			if _, err := os.Stat(tmp); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left behind: %v", tmp, err)
			}
			wantIDs(t, s, old)
		})
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	id := take(t, s, 1, 10)
	sink := begin(t, s, 1, 20) // the process dies here
	_, _ = sink.Write(content(20))
	wantIDs(t, s, id)
	s = newStore(t, dir)
	wantIDs(t, s, id)
	if names := dirNames(t, dir, localDir); len(names) != 1 {
		t.Errorf("the directory has %v", names)
	}
}

// TestDamageOnTheDisk damages each file of a snapshot in each way, and checks that no
// reader gets other bytes than the written ones, or another description.
func TestDamageOnTheDisk(t *testing.T) {
	spoilers := map[string]func(t *testing.T, path string){
		"flipped": func(t *testing.T, path string) { flip(t, path) },
		"cut": func(t *testing.T, path string) {
			info, _ := os.Stat(path)
			_ = os.Truncate(path, info.Size()/2)
		},
		"empty":   func(t *testing.T, path string) { _ = os.Truncate(path, 0) },
		"removed": func(t *testing.T, path string) { _ = os.Remove(path) },
		"longer": func(t *testing.T, path string) {
			data, _ := os.ReadFile(path)
			_ = os.WriteFile(path, append(data, 'x'), 0o600)
		},
	}
	for _, file := range []string{stateFile, metaFile, recordFile} {
		for how, damage := range spoilers {
			t.Run(file+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				old := take(t, newStore(t, dir), 1, 5)
				id := take(t, newStore(t, dir), 1, 10)
				damage(t, filepath.Join(dir, localDir, id, file))
				var told []error
				s := newStore(t, dir)
				s.damaged = func(err error) { told = append(told, err) }
				if _, _, err := read(s, id); err == nil {
					t.Fatal("the damage is not seen")
				}
				if _, _, err := read(s, id); err == nil {
					t.Fatal("the damage is not seen the second time")
				}
				if len(told) != 1 || s.Status().Damaged == "" {
					t.Errorf("it is told as %v, and in the status as %q", told, s.Status().Damaged)
				}
				for _, m := range mustList(t, s) {
					if fmt.Sprint(m.Configuration) != fmt.Sprint(threeServers) {
						t.Errorf("the list describes it as %+v", m)
					}
				}
				wantRead(t, s, old, 5)
				wantRead(t, s, take(t, s, 1, 20), 20)
				if len(mustList(t, s)) == 0 || s.Status().Damaged != "" {
					t.Errorf("a new snapshot does not end the alarm: %s", s.Status().Damaged)
				}
				if aside := dirNames(t, dir, asideDir); len(aside) != 1 {
					t.Errorf("set aside are %v", aside)
				}
			})
		}
	}
}

func mustList(t *testing.T, s *Store) []*raft.SnapshotMeta {
	t.Helper()
	metas, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return metas
}

// TestDamageWhileRaftRuns damages the bytes after they were checked.
func TestDamageWhileRaftRuns(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	id := take(t, s, 1, 10)
	wantRead(t, s, id, 10)
	flip(t, dir, localDir, id, stateFile)
	_, rc, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	got := 0
	buf := make([]byte, 100)
	for err == nil {
		var n int
		n, err = rc.Read(buf)
		got += n
	}
	if !errors.Is(err, ErrDamaged) || got >= len(content(10)) {
		t.Errorf("%d bytes are read, and then: %v", got, err)
	}
	if _, _, err := s.Open(id); !errors.Is(err, ErrDamaged) {
		t.Errorf("from then on: %v", err)
	}
}

// TestDescriptionsMustAgree changes raft's description, for which raft keeps no checksum.
func TestDescriptionsMustAgree(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	id := take(t, s, 1, 10)
	path := filepath.Join(dir, localDir, id, metaFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new string }{
		{`n1~0a`, `n1~0b`},
		{`10.0.0.1:7080`, `10.0.0.9:7080`},
		{`"Index":10`, `"Index":11`},
		{`"Term":1`, `"Term":3`},
		{`"ConfigurationIndex":3`, `"ConfigurationIndex":2`},
		{`"Suffrage":1`, `"Suffrage":0`},
	} {
		bad := strings.Replace(string(data), c.old, c.new, 1)
		if bad == string(data) {
			t.Fatalf("%s is not in %s", c.old, data)
		}
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, s)
		if _, _, err := s.Open(id); !errors.Is(err, ErrDamaged) {
			t.Errorf("with %s: %v", c.new, err)
		}
	}
}

// TestLateSnapshotOfAnOlderEntry checks concurrent snapshots: raft writes its own snapshot
// on one goroutine and the leader's on another. A snapshot that ends after a newer one,
// whenever it began, must not replace it: the log does not continue from there any more.
func TestLateSnapshotOfAnOlderEntry(t *testing.T) {
	for _, when := range []string{"begun before", "begun after"} {
		t.Run(when, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			oldest := take(t, s, 1, 50)
			var own raft.SnapshotSink
			if when == "begun before" {
				own = begin(t, s, 1, 100)
			}
			leaders := take(t, s, 2, 200)
			if own == nil {
				own = begin(t, s, 1, 100)
			}
			_, _ = own.Write(content(100))
			if err := own.Close(); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, s, leaders, own.ID())
			if at := s.Status().Local.Index; at != 200 {
				t.Errorf("the newest one is said to be at %d", at)
			}
			if aside := dirNames(t, dir, asideDir); len(aside) > 0 {
				t.Errorf("set aside are %v", aside)
			}
			if s.exists(oldest) {
				t.Error("a third one is kept")
			}
			wantIDs(t, newStore(t, dir), leaders, own.ID())
		})
	}
}

// TestSnapshotsThatEndTogether checks that two concurrent snapshots tolerate the removals
// of each other.
func TestSnapshotsThatEndTogether(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	for index := uint64(10); index < 200; index += 10 {
		var both errgroup.Group
		for i := range uint64(2) {
			sink := begin(t, s, 1, index+i)
			_, _ = sink.Write(content(index + i))
			both.Go(sink.Close)
		}
		if err := both.Wait(); err != nil {
			t.Fatal(err)
		}
		if newest := mustList(t, s)[0]; newest.Index != index+1 {
			t.Fatalf("the newest one is at %d after %d", newest.Index, index+1)
		}
	}
}

// TestTermsThatBeginAgain writes snapshots with lower terms than those of an earlier
// process. A restart must begin with the one that was written last.
func TestTermsThatBeginAgain(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	before := []string{take(t, s, 50, 1_000), take(t, s, 50, 2_000)}
	s = newStore(t, dir)
	a := take(t, s, 1, 10)
	wantIDs(t, s, a)
	wantRead(t, s, a, 10)
	b := take(t, s, 1, 20)
	wantIDs(t, s, b, a)
	aside := dirNames(t, dir, asideDir)
	if len(aside) != 2 || !strings.HasPrefix(aside[0], before[0]+"~") || !strings.HasPrefix(aside[1], before[1]+"~") {
		t.Errorf("set aside are %v, want %v", aside, before)
	}
}

// TestSetAsideIsBounded sets more snapshots aside than are kept.
func TestSetAsideIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	var last string
	for index := uint64(50); index > 40; index-- {
		s = newStore(t, dir) // a new process without memory of the earlier one
		last = take(t, s, 1, index)
	}
	wantIDs(t, s, last)
	if aside := dirNames(t, dir, asideDir); len(aside) != asideKept {
		t.Errorf("set aside are %v", aside)
	}
}

func TestForeignNamesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"notes", "1-2-3-4", "1-2", "01-2-3"} {
		if err := os.MkdirAll(filepath.Join(dir, localDir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, localDir, "1-2-3"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, dir)
	wantIDs(t, s)
	if _, _, err := s.Open("../x"); err == nil {
		t.Error("a name that leads elsewhere is opened")
	}
	id := take(t, s, 1, 10)
	wantIDs(t, s, id)
	if names := dirNames(t, dir, localDir); len(names) != 6 {
		t.Errorf("the directory has %v", names)
	}
}
