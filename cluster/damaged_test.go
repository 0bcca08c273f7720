package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"osqueue/cluster/raftlog"
)

// A node must not apply a committed entry in which a bit has flipped: its state would
// differ from that of the other nodes from then on.
func TestNodeWithADamagedLogDoesNotStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.start("n", 3, nil)
	leader := l.leader(nodes...)
	l.enqueue(leader, "job-with-a-name-to-look-for")
	n := others(nodes, leader)[0]
	l.eventually("the follower to have it", func() bool { return n.Job("job-with-a-name-to-look-for") != nil })
	n.stop()

	if !replaceInLog(t, n.cfg.DataDir, "job-with-a-name-to-look-for", "job-with-a-name-to-look-Gor") {
		t.Fatal("there is nothing to damage")
	}
	if m, err := Open(n.cfg); !errors.Is(err, raftlog.ErrDamaged) {
		if err == nil {
			_ = m.Close()
		}
		t.Fatalf("it starts: %v", err)
	}

	// The advice in the error message works.
	back := l.again(n, t.TempDir(), nil)
	l.eventually("the new member to have it", func() bool { return back.Job("job-with-a-name-to-look-for") != nil })
}

// replaceInLog replaces a text in the files of a raft log. It reports whether there was any.
func replaceInLog(t *testing.T, dir, before, after string) (replaced bool) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "raft", "log", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(data, []byte(before)) {
			continue
		}
		replaced = true
		if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(before), []byte(after)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return replaced
}
