package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osqueue/cluster/membership"

	"github.com/hashicorp/raft"
)

// removeLog removes the raft log of a data directory.
func removeLog(dir string) error { return os.RemoveAll(filepath.Join(dir, "raft")) }

// emptyLog truncates the files of the raft log of a data directory.
func emptyLog(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "raft"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			return os.Truncate(path, 0)
		}
		return err
	})
}

// stoppedFollower returns a follower of three nodes that has confirmed a job, its leader,
// and its data directory. The test stops it.
func stoppedFollower(t *testing.T) (l *lab, leader, n *member, dir string) {
	t.Helper()
	l = newLab(t)
	nodes := l.start("n", 3, nil)
	leader = l.leader(nodes...)
	l.enqueue(leader, "a")
	for _, m := range nodes {
		if m != leader {
			n = m
		}
	}
	l.eventually("the follower to have the job", func() bool { return n.Job("a") != nil })
	return l, leader, n, n.cfg.DataDir
}

func (l *lab) witnessOf(m *member) *witnessed {
	l.t.Helper()
	w, err := readWitness(m.cfg.DataDir)
	if err != nil || w == nil {
		l.t.Fatalf("the witness is %v: %v", w, err)
	}
	return w
}

// refused requires that a node does not start, and that the error has the advice.
func (l *lab) refused(m *member) {
	l.t.Helper()
	again, err := Open(m.cfg)
	if err == nil {
		_ = again.Close()
		l.t.Fatal("it starts")
	}
	if !strings.Contains(err.Error(), "delete its data directory") {
		l.t.Fatalf("the error does not say what to do: %v", err)
	}
}

// A node that has voted and confirmed entries, and whose log is gone, must not vote with
// an empty log.
func TestANodeWhoseLogIsGoneDoesNotStart(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{"deleted": removeLog, "emptied": emptyLog} {
		t.Run(name, func(t *testing.T) {
			l, leader, n, dir := stoppedFollower(t)
			l.eventually("the witness", func() bool { return l.witnessOf(n).Term > 0 })
			n.stop()
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			l.refused(n)

			// The advice in the error message works.
			back := l.again(n, t.TempDir(), nil)
			l.eventually("the new member to have the job and a vote", func() bool {
				return back.Job("a") != nil && membership.Voter(leader.raft.GetConfiguration().Configuration(), back.id)
			})
		})
	}
}

func TestANodeWithAnOlderLogDoesNotStart(t *testing.T) {
	l, leader, n, dir := stoppedFollower(t)
	n.stop()
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	n = l.again(n, n.cfg.DataDir, nil)
	before := l.witnessOf(n).Index
	l.enqueue(leader, "b")
	l.eventually("the witness of the entry", func() bool { return l.witnessOf(n).Index > before && n.Job("b") != nil })
	n.stop()
	if err := removeLog(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(old, "raft"), filepath.Join(dir, "raft")); err != nil {
		t.Fatal(err)
	}
	l.refused(n)
}

// A log that is shorter than the witness is refused, also if raft's term is a later one: the witness is
// lowered before the log is.
func TestAShorterLogOfALaterTermDoesNotStart(t *testing.T) {
	l, _, n, dir := stoppedFollower(t)
	n.stop()
	w := l.witnessOf(n)
	w.Term, w.VoteTerm, w.Index = w.Term-1, min(w.VoteTerm, w.Term-1), w.Index+1000
	if err := writeWitness(filepath.Join(dir, witnessFile), *w); err != nil {
		t.Fatal(err)
	}
	l.refused(n)
}

// An identity without its witness does not start: the log may be an older copy.
func TestANodeWithoutAWitnessDoesNotStart(t *testing.T) {
	l, _, n, dir := stoppedFollower(t)
	n.stop()
	if err := os.Remove(filepath.Join(dir, witnessFile)); err != nil {
		t.Fatal(err)
	}
	l.refused(n)
}

// A node that is closed witnesses all entries that it has confirmed, and removes what a killed
// process left.
func TestAClosedNodeHasAFullWitness(t *testing.T) {
	l, leader, n, dir := stoppedFollower(t)
	lsn := l.enqueue(leader, "b")
	l.eventually("the follower to have the job", func() bool { return n.Job("b") != nil })
	n.stop()
	if got := l.witnessOf(n); got.Index < lsn.Index {
		t.Errorf("the witness is %v, and the node has confirmed entry %d", got, lsn.Index)
	}
	left := filepath.Join(dir, "."+witnessFile+".123.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.again(n, dir, nil)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left is there: %v", err)
	}
}

// A node starts although its witness cannot be written, as on a full disk: the old one claims less.
func TestTheWitnessNeedsNoRoomAtTheStart(t *testing.T) {
	t.Parallel()
	mem := raft.NewInmemStore()
	if err := mem.StoreLog(&raft.Log{Index: 7, Term: 1}); err != nil {
		t.Fatal(err)
	}
	cfg := &Config{testEnv: &testEnv{claims: fullClaims{}}}
	s := &stores{log: mem, stable: mem, snapshots: raft.NewInmemSnapshotStore()}
	w, err := openWitness(cfg, "n~1", s)
	if err != nil || w.known.Index != 5 || w.last.Load() != 7 {
		t.Fatalf("%+v, %v", w, err)
	}
}

// fullClaims is a witness of 5 entries on a full disk.
type fullClaims struct{}

func (fullClaims) load() (*witnessed, error) { return &witnessed{Server: "n~1", Index: 5}, nil }
func (fullClaims) save(witnessed) error      { return syscall.ENOSPC }

// The log of a follower may become shorter: the witness is lowered before the log.
func TestTheWitnessIsLoweredBeforeTheLogIs(t *testing.T) {
	dir := t.TempDir()
	mem := raft.NewInmemStore()
	w := &witness{file: claimFile(filepath.Join(dir, witnessFile)), poke: make(chan struct{}, 1), known: witnessed{Server: "n~1"}}
	fails := errors.New("the log fails")
	g := &guardedLog{
		LogStore: brokenDelete{mem, fails}, StableStore: mem, dog: &watchdog{fatal: func(error) {}}, witness: w,
	}
	for i := uint64(1); i <= 5; i++ {
		if err := g.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(g.SetUint64([]byte(keyTerm), 3), g.SetUint64([]byte(keyVoteTerm), 2), w.write()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want uint64 }{{1, 2, 5}, {4, 5, 3}} {
		if err := g.DeleteRange(c.from, c.to); !errors.Is(err, fails) {
			t.Fatal(err)
		}
		got, err := readWitness(dir)
		if want := (witnessed{Server: "n~1", Term: 3, VoteTerm: 2, Index: c.want}); err != nil || *got != want {
			t.Errorf("entries %d to %d are about to be removed, and the witness says %v: %v", c.from, c.to, got, err)
		}
	}
}

type brokenDelete struct {
	raft.LogStore
	err error
}

func (b brokenDelete) DeleteRange(uint64, uint64) error { return b.err }
