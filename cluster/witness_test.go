package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/cluster/membership"
	"osqueue/cluster/raftlog"
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
	n = others(nodes, leader)[0]
	l.eventually("the follower to have the job", func() bool { return n.Job("a") != nil })
	return l, leader, n, n.cfg.DataDir
}

func (l *lab) witnessOf(m *member) *raftlog.Witnessed {
	l.t.Helper()
	w, err := raftlog.ReadWitness(m.cfg.DataDir)
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	l, _, n, dir := stoppedFollower(t)
	n.stop()
	w := l.witnessOf(n)
	w.Term, w.VoteTerm, w.Index = w.Term-1, min(w.VoteTerm, w.Term-1), w.Index+1000
	if err := raftlog.WitnessFile(dir).Save(*w); err != nil {
		t.Fatal(err)
	}
	l.refused(n)
}

// An identity without its witness does not start: the log may be an older copy.
func TestANodeWithoutAWitnessDoesNotStart(t *testing.T) {
	t.Parallel()
	l, _, n, dir := stoppedFollower(t)
	n.stop()
	if err := os.Remove(filepath.Join(dir, "witness.json")); err != nil {
		t.Fatal(err)
	}
	l.refused(n)
}

// A node that is closed witnesses all entries that it has confirmed, and removes what a killed
// process left.
func TestAClosedNodeHasAFullWitness(t *testing.T) {
	t.Parallel()
	l, leader, n, dir := stoppedFollower(t)
	lsn := l.enqueue(leader, "b")
	l.eventually("the follower to have the job", func() bool { return n.Job("b") != nil })
	n.stop()
	if got := l.witnessOf(n); got.Index < lsn.Index {
		t.Errorf("the witness is %v, and the node has confirmed entry %d", got, lsn.Index)
	}
	left := filepath.Join(dir, ".witness.json.123.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.again(n, dir, nil)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left is there: %v", err)
	}
}
